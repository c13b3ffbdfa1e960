use board_store::{
    ProcessKey, RunEdit, RunExit, RunFilter, StateChange, StateCounts, Store, StoreError,
};
use run_protocol::{RunId, RunState};
use sqlx::SqlitePool;

use crate::support::{begin, create, new_run};

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn run_is_found_as_it_was_made(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let mut new = new_run("first");
    new.tags = vec!["b".to_owned(), "a".to_owned(), "b".to_owned()];
    let made = store.create_run(new.clone()).await.unwrap();
    let found = store.find_run(new.id).await.unwrap().unwrap();
    assert_eq!(found, made);
    assert_eq!((found.state, found.attempt), (RunState::Queued, 0));
    assert_eq!(found.tags, ["a", "b"]);
    assert_eq!(
        store.find_texts(new.id).await.unwrap(),
        Some(new.texts.clone())
    );
    assert!(matches!(
        store.create_run(new).await,
        Err(StoreError::RunExists(_))
    ));
    assert_eq!(store.find_run(RunId::new()).await.unwrap(), None);
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn list_goes_page_by_page_from_the_newest(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    for number in 0..5 {
        create(&store, &format!("run {number}")).await;
    }
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .list_runs(&RunFilter::default(), after, 2)
            .await
            .unwrap();
        names.extend(page.runs.into_iter().map(|run| run.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["run 4", "run 3", "run 2", "run 1", "run 0"]);
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn filter_looks_at_state_name_model_and_tags(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let one = create(&store, "Alpha").await;
    let two = create(&store, "beta").await;
    begin(&store, two.id).await;
    let edit = RunEdit {
        tags: Some(vec!["Good".to_owned(), "Проба".to_owned()]),
        ..RunEdit::default()
    };
    store.edit_run(one.id, edit).await.unwrap();
    let list = async |states: &[RunState], text: &str| {
        let filter = RunFilter {
            states: states.to_vec(),
            text: Some(text.to_owned()),
        };
        let page = store.list_runs(&filter, None, 10).await.unwrap();
        page.runs
            .into_iter()
            .map(|run| run.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&[], "ALPHA").await, ["Alpha"]);
    assert_eq!(list(&[], "good").await, ["Alpha"]);
    for text in ["Проба", "проба", "ПРОБ"] {
        assert_eq!(list(&[], text).await, ["Alpha"], "{text}");
    }
    assert!(list(&[], "проверка").await.is_empty());
    assert_eq!(list(&[], "tiny-llama").await, ["beta", "Alpha"]);
    assert_eq!(
        list(&[RunState::Starting, RunState::Failed], " ").await,
        ["beta"]
    );
    assert_eq!(list(&[], "%").await, [""; 0]);
    let counts = store.count_runs().await.unwrap();
    assert_eq!(
        counts,
        StateCounts {
            queued: 1,
            starting: 1,
            ..StateCounts::default()
        }
    );
    assert_eq!(counts.total(), 2);
    assert_eq!(store.queued_runs().await.unwrap(), [one.id]);
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn state_changes_only_from_the_states_that_allow_it(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let mut events = store.subscribe();
    let run = create(&store, "a").await;
    begin(&store, run.id).await;
    let process = Some(ProcessKey {
        pid: 7,
        start_time: 8,
    });
    let started = StateChange {
        process,
        ..StateChange::new(&[RunState::Starting], RunState::Starting, 3_000)
    };
    assert_eq!(
        store.change_state(run.id, started).await.unwrap().process,
        process
    );
    let again = StateChange::new(&[RunState::Queued], RunState::Starting, 4_000);
    let error = store.change_state(run.id, again).await.unwrap_err();
    assert!(matches!(
        error,
        StoreError::State {
            is: RunState::Starting,
            ..
        }
    ));

    let exit = RunExit {
        code: Some(13),
        class: Some("out_of_memory".to_owned()),
        message: Some("no room".to_owned()),
        hint: Some("smaller batch".to_owned()),
    };
    let failed = StateChange {
        exit: exit.clone(),
        ..StateChange::new(&[RunState::Starting], RunState::Failed, 5_000)
    };
    let run = store.change_state(run.id, failed).await.unwrap();
    assert_eq!(
        (run.state, run.ended_ms, run.process),
        (RunState::Failed, Some(5_000), None)
    );
    assert_eq!(run.exit, Some(exit));

    let states: Vec<String> = std::iter::from_fn(|| events.try_recv().ok())
        .map(|event| {
            let body: serde_json::Value = serde_json::from_str(&event.body).unwrap();
            body["state"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(states, ["queued", "starting", "failed"]);
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn resumed_run_forgets_how_it_ended(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await;
    begin(&store, run.id).await;
    let failed = StateChange::new(&[RunState::Starting], RunState::Failed, 5_000);
    store.change_state(run.id, failed).await.unwrap();
    let again = StateChange {
        resume_from: Some("auto".to_owned()),
        ..StateChange::new(&[RunState::Failed], RunState::Queued, 6_000)
    };
    let run = store.change_state(run.id, again).await.unwrap();
    assert_eq!((run.exit, run.ended_ms, run.started_ms), (None, None, None));
    assert_eq!((run.attempt, run.resume_from.as_deref()), (1, Some("auto")));
    assert_eq!((run.created_ms, run.queued_ms), (1_000, 6_000));
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn deleted_run_leaves_its_id(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await;
    begin(&store, run.id).await;
    let error = store.delete_run(run.id, 9_000).await.unwrap_err();
    assert!(matches!(error, StoreError::StillActive(_)));
    let ended = StateChange::new(&[RunState::Starting], RunState::Stopped, 8_000);
    store.change_state(run.id, ended).await.unwrap();
    store.delete_run(run.id, 9_000).await.unwrap();
    assert_eq!(store.find_run(run.id).await.unwrap(), None);
    assert!(store.events_after(0, None, 100).await.unwrap().is_empty());
    let mut again = new_run("a");
    again.id = run.id;
    assert!(matches!(
        store.create_run(again).await,
        Err(StoreError::RunDeleted(_))
    ));
    let next = create(&store, "b").await;
    let events = store.events_after(0, Some(next.id), 100).await.unwrap();
    assert_eq!(events[0].id, 4, "ids of deleted events are not used again");
}

#[sqlx::test(migrator = "board_store::MIGRATOR")]
async fn edit_is_whole_or_not_at_all(pool: SqlitePool) {
    let store = Store::from_pool(pool).await.unwrap();
    let run = create(&store, "a").await;
    let edit = RunEdit {
        name: Some("<b>名</b>".to_owned()),
        notes: Some("x".to_owned()),
        tags: Some(vec![String::new()]),
    };
    let error = store.edit_run(run.id, edit.clone()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`tag` takes from 1 to 60 characters, got 0"
    );
    assert_eq!(store.find_run(run.id).await.unwrap().unwrap(), run);
    let edit = RunEdit {
        tags: Some(vec!["t".to_owned()]),
        ..edit
    };
    let edited = store.edit_run(run.id, edit).await.unwrap();
    assert_eq!(
        (edited.name.as_str(), edited.notes.as_str()),
        ("<b>名</b>", "x")
    );
    assert_eq!(edited.tags, ["t"]);
}
