use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use board_store::{Store, StoreError};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::support::{create, export_all, ingest, metric};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn database_is_private_and_keeps_what_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.sqlite");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = Store::open(&path).await.unwrap();
    let run = create(&store, "kept").await;
    for name in [
        "board.sqlite",
        "board.sqlite-wal",
        "board.sqlite-shm",
        "board.sqlite-lock",
    ] {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
    }
    store.close().await;
    assert!(matches!(
        store.find_run(run.id).await,
        Err(StoreError::Database(_))
    ));
    assert!(matches!(
        store.delete_run(run.id, 0).await,
        Err(StoreError::Closed)
    ));
    drop(store);
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.find_run(run.id).await.unwrap(), Some(run));
}

#[tokio::test]
async fn second_board_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.sqlite");
    let _store = Store::open(&path).await.unwrap();
    let error = Store::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn newer_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.sqlite");
    Store::open(&path).await.unwrap().close().await;
    let options = SqliteConnectOptions::new().filename(&path);
    let pool = SqlitePoolOptions::new()
        .connect_with(options)
        .await
        .unwrap();
    let newer =
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (29990101000000, 'later', TRUE, x'00', 0)";
    sqlx::query(newer).execute(&pool).await.unwrap();
    pool.close().await;
    let error = Store::open(&path).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerVersion {
                version: 29_990_101_000_000
            }
        ),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("newer board"));
}

#[tokio::test]
async fn file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.sqlite");
    let content = "not a database, but somebody's letter\n".repeat(200);
    fs::write(&path, &content).unwrap();
    let error = Store::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
}

#[tokio::test]
async fn damaged_database_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.sqlite");
    let store = Store::open(&path).await.unwrap();
    let run = create(&store, "a").await;
    let events = (1..2100).map(|seq| metric(seq, &[("loss", 1.0)])).collect();
    ingest(&store, run.id, events).await.unwrap();
    store.close().await;
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[4096..half].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let error = Store::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn missing_folder_is_told() {
    let error = Store::open(Path::new("/proc/nowhere/board.sqlite"))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
    assert!(error.to_string().contains("/proc/nowhere/board.sqlite"));
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn full_disk_refuses_what_comes_and_keeps_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.sqlite");
    Store::open(&path).await.unwrap().close().await;
    // SQLite says the same when a page more is forbidden as when the disk has none left.
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .pragma("max_page_count", "120");
    let pool = SqlitePoolOptions::new()
        .max_connections(2)
        .connect_with(options)
        .await
        .unwrap();
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await.id;
    let batch = |number: u64| {
        (number * 500 + 1..=number * 500 + 500)
            .map(|seq| metric(seq, &[("loss", 1.0)]))
            .collect()
    };
    let mut num_stored = 0;
    let error = loop {
        match ingest(&store, run, batch(num_stored)).await {
            Ok(_) => num_stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::DiskFull), "{error}");
    assert!(error.hint().is_some());
    assert!(num_stored > 0);
    let rows = export_all(&store, run).await;
    assert_eq!(rows.len() as u64, num_stored * 500);
    store.close().await;
    drop(store);
    // With room again, the same batch goes in, once.
    let store = Store::open(&path).await.unwrap();
    ingest(&store, run, batch(num_stored)).await.unwrap();
    let rows = export_all(&store, run).await;
    assert!(
        rows.iter()
            .map(|row| row.point.step)
            .eq(1..=i64::try_from(num_stored).unwrap() * 500 + 500)
    );
}
