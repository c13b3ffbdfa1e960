//! Exit record, launcher record, run directory, ids, states, and the log line.

use std::{fs, path::Path};

use run_protocol::{ExitCode, ExitRecord, LauncherRecord, RunDir, RunId, RunState, TrainerLogLine};
use tempfile::tempdir;

#[test]
fn exit_codes_are_those_of_the_contract() {
    let codes: Vec<u8> = ExitCode::ALL.iter().map(|code| code.code()).collect();
    assert_eq!(codes, [0, 130, 10, 11, 12, 13, 14, 15, 16, 17, 70]);
    for code in ExitCode::ALL {
        assert_eq!(ExitCode::from_code(i32::from(code.code())), Some(*code));
    }
    assert_eq!(ExitCode::from_code(1), None);
}

#[test]
fn an_exit_record_is_whole_or_absent() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("exit.json");
    assert_eq!(ExitRecord::read(&path).expect("absent is no fault"), None);
    let mut record = ExitRecord::new(ExitCode::BadData, 2);
    record.rank = Some(0);
    record.message = Some("a comma too many".to_owned());
    record.write(&path).expect("it is written");
    assert_eq!(
        ExitRecord::read(&path).expect("it is read"),
        Some(record.clone())
    );
    assert_eq!(record.exit_code(), Some(ExitCode::BadData));
    let names: Vec<_> = fs::read_dir(dir.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["exit.json"]);
    fs::write(&path, "{").expect("it is written");
    assert!(ExitRecord::read(&path).is_err());
}

#[test]
fn a_launcher_record_is_read_back() {
    let dir = tempdir().expect("a folder");
    let run = RunDir::create(dir.path().join("run")).expect("it is made");
    let record = LauncherRecord {
        pid: 7,
        start_time: 123,
        attempt: 1,
    };
    record.write(&run.launcher()).expect("it is written");
    assert_eq!(
        LauncherRecord::read(&run.launcher()).expect("it is read"),
        Some(record)
    );
}

#[cfg(unix)]
#[test]
fn a_run_directory_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempdir().expect("a folder");
    let run = RunDir::create(dir.path().join("runs/one")).expect("it is made");
    for path in [run.root().to_path_buf(), run.logs()] {
        let mode = fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    assert!(
        RunDir::create(run.root()).is_ok(),
        "an existing one is left as it is"
    );
}

#[test]
fn paths_of_a_run_directory_are_those_of_the_contract() {
    let run = RunDir::new("/r");
    for (path, name) in [
        (run.training_args(), "training_args.yaml"),
        (run.config(), "config.yaml"),
        (run.events(), "events.jsonl"),
        (run.exit(), "exit.json"),
        (run.launcher(), "launcher.json"),
        (run.launcher_log(), "logs/launcher.log"),
        (run.rank_log(3), "logs/rank-3.log"),
        (run.trainer_log(), "trainer_log.jsonl"),
        (run.training_loss(), "training_loss.svg"),
        (run.checkpoint(20), "checkpoint-20"),
    ] {
        assert_eq!(path, Path::new("/r").join(name));
    }
}

#[test]
fn only_complete_checkpoints_count_by_number() {
    let dir = tempdir().expect("a folder");
    let run = RunDir::create(dir.path()).expect("it is made");
    for step in [100, 20, 3] {
        fs::create_dir(run.checkpoint(step)).expect("it is made");
    }
    fs::create_dir(run.root().join("checkpoint-x")).expect("it is made");
    for step in [20, 3] {
        fs::write(RunDir::checkpoint_mark(&run.checkpoint(step)), "").expect("it is written");
    }
    let steps: Vec<u64> = run
        .checkpoints()
        .expect("it is read")
        .into_iter()
        .map(|(step, _)| step)
        .collect();
    assert_eq!(steps, [3, 20]);
    assert_eq!(
        run.latest_checkpoint()
            .expect("it is read")
            .map(|(step, _)| step),
        Some(20)
    );
}

#[test]
fn ids_sort_by_time_and_have_one_spelling() {
    let (first, second) = (RunId::new(), RunId::new());
    assert!(first < second);
    assert_eq!(
        first
            .to_string()
            .parse::<RunId>()
            .expect("its own spelling"),
        first
    );
    assert!(
        first.to_string().to_uppercase().parse::<RunId>().is_err()
            || !first.to_string().contains(char::is_alphabetic)
    );
    assert!("../etc".parse::<RunId>().is_err());
}

#[test]
fn states_are_read_back_from_their_words() {
    for state in RunState::ALL {
        assert_eq!(
            state.as_str().parse::<RunState>().expect("its own word"),
            *state
        );
    }
    assert!(
        RunState::Stopping.is_active()
            && !RunState::Stopping.is_final()
            && RunState::Stopped.is_final()
    );
}

#[test]
fn a_log_line_has_the_form_of_llama_factory() {
    let mut line = TrainerLogLine::at(10, 300, 12.0, 10);
    line.loss = Some(1.2345.into());
    line.lr = Some(9e-5);
    line.epoch = Some(0.1);
    let text = serde_json::to_string(&line).expect("it is JSON");
    assert_eq!(
        text,
        r#"{"current_steps":10,"total_steps":300,"loss":1.2345,"lr":0.00009,"epoch":0.1,"percentage":3.33,"elapsed_time":"0:00:12","remaining_time":"0:05:48"}"#
    );
    assert_eq!(run_protocol::trainer_log::clock(90_061.0), "1 day, 1:01:01");
}
