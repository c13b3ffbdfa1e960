//! The event file: its exact JSON, torn lines, garbage, and following it.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

use proptest::prelude::*;
use run_protocol::{
    Event, EventKind, EventReader, EventWriter, MetricValue,
    events::{FORMAT_VERSION, Finished, Level, Phase, Started, Unknown},
    limits::MAX_EVENT_BYTES,
};
use tempfile::tempdir;

fn metric(step: u64) -> EventKind {
    EventKind::metric(step, Some(0.5), [("loss", 1.5), ("grad_norm", f64::NAN)])
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("it opens");
    file.write_all(bytes).expect("it is written");
}

fn steps(events: &[Event]) -> Vec<u64> {
    let step = |event: &Event| match &event.kind {
        EventKind::Metric(metric) => Some(metric.step),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

#[test]
fn a_metric_event_has_the_json_of_the_contract() {
    let kind = EventKind::metric(
        3,
        Some(0.25),
        [
            ("loss", 2.0),
            ("grad_norm", f64::NAN),
            ("a", f64::INFINITY),
            ("b", f64::NEG_INFINITY),
        ],
    );
    let event = Event {
        v: 1,
        seq: 7,
        attempt: 2,
        time: 1_700_000_000_000,
        kind,
    };
    let line = event.to_line().expect("it is JSON");
    assert_eq!(
        line,
        r#"{"v":1,"seq":7,"attempt":2,"time":1700000000000,"kind":"metric","step":3,"epoch":0.25,"values":{"loss":2.0,"grad_norm":"NaN","a":"Infinity","b":"-Infinity"}}"#
    );
    assert_eq!(Event::from_line(&line).expect("it is an event"), event);
}

#[test]
fn every_kind_is_read_back() {
    let kinds = [
        EventKind::Started(Box::new(Started {
            world_size: 2,
            total_steps: Some(9),
            ..Started::default()
        })),
        EventKind::stage(Phase::Tokenizing, Some(1), Some(2)),
        EventKind::stage(Phase::Loading, None, None),
        EventKind::log(Level::Warn, 1, "slow"),
        EventKind::Finished(Finished {
            step: 4,
            stopped: true,
            ..Finished::default()
        }),
        EventKind::Unknown(Unknown {
            kind: "weather".to_owned(),
            fields: [("sky".to_owned(), serde_json::json!({"blue": [1]}))]
                .into_iter()
                .collect(),
        }),
    ];
    for kind in kinds {
        let event = Event {
            v: FORMAT_VERSION,
            seq: 1,
            attempt: 1,
            time: 0,
            kind,
        };
        let line = event.to_line().expect("it is JSON");
        assert_eq!(
            Event::from_line(&line).expect("it is an event"),
            event,
            "{line}"
        );
    }
}

#[test]
fn fields_of_a_later_version_do_not_disturb() {
    let line = r#"{"v":2,"seq":1,"attempt":1,"time":0,"kind":"metric","step":1,"values":{"loss":1},"new":true}"#;
    assert!(matches!(
        Event::from_line(line).expect("it is an event").kind,
        EventKind::Metric(_)
    ));
}

#[test]
fn numbers_go_on_over_attempts_and_a_torn_line_is_cut() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    let mut writer = EventWriter::open(&path).expect("it opens");
    assert_eq!((writer.attempt(), writer.next_seq()), (1, 1));
    writer.write(metric(1)).expect("it is written");
    writer.write(metric(2)).expect("it is written");
    drop(writer);
    append(&path, br#"{"v":1,"seq":3,"att"#);
    let mut writer = EventWriter::open(&path).expect("it opens");
    assert_eq!((writer.attempt(), writer.next_seq()), (2, 3));
    writer.write(metric(3)).expect("it is written");
    let text = fs::read_to_string(&path).expect("it is text");
    assert_eq!(text.lines().count(), 3);
    let batch = EventReader::new(&path, 0)
        .read(usize::MAX)
        .expect("it is read");
    assert_eq!(
        (steps(&batch.events), batch.bad_lines.len()),
        (vec![1, 2, 3], 0)
    );
}

#[test]
fn a_writer_finds_the_last_event_behind_garbage() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    let mut writer = EventWriter::open(&path).expect("it opens");
    writer.write(metric(1)).expect("it is written");
    append(&path, format!("{}\n", "x".repeat(200_000)).as_bytes());
    append(&path, b"\xff\xfe\n\n");
    let writer = EventWriter::open(&path).expect("it opens");
    assert_eq!((writer.attempt(), writer.next_seq()), (2, 2));
}

#[test]
fn a_reader_waits_for_the_newline_and_goes_on_by_offset() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    let mut reader = EventReader::new(&path, 0);
    assert!(reader.read(10).expect("absent is no fault").is_at_end);
    let mut writer = EventWriter::open(&path).expect("it opens");
    let line = writer
        .write(metric(1))
        .expect("it is written")
        .to_line()
        .expect("JSON");
    append(&path, &line.as_bytes()[..20]);
    let batch = reader.read(10).expect("it is read");
    assert_eq!(steps(&batch.events), [1]);
    append(&path, &line.as_bytes()[20..]);
    assert!(reader.read(10).expect("it is read").events.is_empty());
    append(&path, b"\n");
    assert_eq!(steps(&reader.read(10).expect("it is read").events), [1]);
    append(&path, format!("{line}\n").as_bytes());
    let mut other = EventReader::new(&path, reader.offset());
    assert_eq!(steps(&other.read(10).expect("it is read").events), [1]);
}

#[test]
fn a_torn_line_that_is_cut_and_replaced_is_read_as_it_stands() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    append(&path, br#"{"v":1,"seq":1,"attempt":1,"ti"#);
    let mut reader = EventReader::new(&path, 0);
    assert!(reader.read(10).expect("it is read").events.is_empty());
    EventWriter::open(&path)
        .expect("it opens")
        .write(metric(5))
        .expect("it is written");
    let batch = reader.read(10).expect("it is read");
    assert_eq!((steps(&batch.events), batch.bad_lines.len()), (vec![5], 0));
}

#[test]
fn garbage_is_reported_and_passed_over() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    let mut writer = EventWriter::open(&path).expect("it opens");
    writer.write(metric(1)).expect("it is written");
    append(&path, b"not json\n\xff\xfe\xfd\n{\"v\":1}\n");
    append(&path, "y".repeat(MAX_EVENT_BYTES + 10).as_bytes());
    let mut reader = EventReader::new(&path, 0);
    let batch = reader.read(10).expect("it is read");
    assert_eq!((steps(&batch.events), batch.bad_lines.len()), (vec![1], 3));
    append(&path, b"yy\n");
    writer.write(metric(2)).expect("it is written");
    let batch = reader.read(10).expect("it is read");
    assert_eq!((steps(&batch.events), batch.bad_lines.len()), (vec![2], 1));
    assert_eq!(reader.bad_lines(), 4);
    assert_eq!(
        reader.offset(),
        fs::metadata(&path).expect("it is there").len()
    );
}

#[test]
fn a_file_that_shrank_is_read_again() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    let mut writer = EventWriter::open(&path).expect("it opens");
    for step in 1..4 {
        writer.write(metric(step)).expect("it is written");
    }
    let mut reader = EventReader::new(&path, 0);
    assert_eq!(reader.read(10).expect("it is read").events.len(), 3);
    fs::remove_file(&path).expect("it is removed");
    EventWriter::open(&path)
        .expect("it opens")
        .write(metric(9))
        .expect("it is written");
    let batch = reader.read(10).expect("it is read");
    assert_eq!((steps(&batch.events), batch.bad_lines.len()), (vec![9], 1));
}

#[test]
fn a_long_text_is_cut_and_an_event_too_large_is_refused() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    let mut writer = EventWriter::open(&path).expect("it opens");
    let text = "é".repeat(MAX_EVENT_BYTES);
    writer
        .write(EventKind::log(Level::Info, 0, text))
        .expect("it is cut");
    let names = (0..MAX_EVENT_BYTES / 10).map(|index| (index.to_string(), 1.0));
    assert!(writer.write(EventKind::metric(1, None, names)).is_err());
    writer.write(metric(1)).expect("it is written");
    let batch = EventReader::new(&path, 0).read(10).expect("it is read");
    assert_eq!((steps(&batch.events), batch.bad_lines.len()), (vec![1], 0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_apart() {
    let Ok(mut writer) = EventWriter::open("/dev/full") else {
        return; // Not every sandbox has the device.
    };
    let error = writer.write(metric(1)).expect_err("it is full");
    assert!(error.is_disk_full(), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_long_file_is_read_in_batches_without_loss() {
    let dir = tempdir().expect("a folder");
    let path = dir.path().join("events.jsonl");
    let mut writer = EventWriter::open(&path).expect("it opens");
    for step in 0..4_000 {
        writer.write(metric(step)).expect("it is written");
    }
    let mut reader = EventReader::new(&path, 0);
    let mut seen = Vec::new();
    loop {
        let batch = reader.read(100).expect("it is read");
        seen.extend(batch.events.iter().map(|event| event.seq));
        if batch.is_at_end {
            break;
        }
    }
    assert_eq!(seen, (1..=4_000).collect::<Vec<u64>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_number_is_read_back(bits in any::<u64>()) {
        let value = MetricValue(f64::from_bits(bits));
        let text = serde_json::to_string(&value).expect("it is JSON");
        let back: MetricValue = serde_json::from_str(&text).expect("it is a value");
        prop_assert_eq!(back, value);
    }

    #[test]
    fn no_line_makes_the_reader_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let dir = tempdir().expect("a folder");
        let path = dir.path().join("events.jsonl");
        append(&path, &line);
        append(&path, b"\n");
        EventReader::new(&path, 0).read(10).expect("it is read");
        EventWriter::open(&path).expect("it opens");
    }

    #[test]
    fn a_file_cut_anywhere_gives_whole_events_only(cut in 0_usize..2000) {
        let dir = tempdir().expect("a folder");
        let path = dir.path().join("events.jsonl");
        let mut writer = EventWriter::open(&path).expect("it opens");
        for step in 0..10 {
            writer.write(metric(step)).expect("it is written");
        }
        let bytes = fs::read(&path).expect("it is read");
        let cut = cut.min(bytes.len());
        fs::write(&path, &bytes[..cut]).expect("it is written");
        let whole = bytes[..cut].split(|byte| *byte == b'\n').count() - 1;
        let batch = EventReader::new(&path, 0).read(usize::MAX).expect("it is read");
        prop_assert_eq!((batch.events.len(), batch.bad_lines.len()), (whole, 0));
        let writer = EventWriter::open(&path).expect("it opens");
        prop_assert_eq!(writer.next_seq(), whole as u64 + 1);
    }
}
