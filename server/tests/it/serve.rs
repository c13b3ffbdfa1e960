//! The program itself: how it starts, what it refuses, how it ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{GOOD_YAML, LIMIT, stub_trainer};

fn board() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_board"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    (output, text)
}

/// A board on a free port; dropping it ends it.
struct Served {
    process: Child,
    port: u16,
    rest: BufReader<std::process::ChildStderr>,
}

impl Served {
    fn start(data_dir: &Path, trainer: &Path, port: u16) -> Self {
        let mut command = board();
        command
            .args(["serve", "--port", &port.to_string()])
            .arg("--data-dir")
            .arg(data_dir)
            .arg("--trainer")
            .arg(trainer);
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let rest = BufReader::new(process.stderr.take().unwrap());
        let port = line
            .trim()
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .unwrap_or_else(|_| panic!("the board said `{line}`"));
        Self {
            process,
            port,
            rest,
        }
    }

    /// Sends raw bytes and returns the connection.
    fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a request on a connection of its own and returns the whole answer.
    fn exchange(&self, method: &str, path: &str, body: &str) -> String {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        let length = body.len();
        let request = format!(
            "{head}content-type: application/yaml\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let mut answer = String::new();
        self.connect(&request).read_to_string(&mut answer).unwrap();
        answer
    }

    fn json(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = self.exchange(method, path, body);
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1)
            .unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn wait_for(&self, run: &str, is_reached: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let answer = self.json("GET", &format!("/api/v1/runs/{run}"), "");
            if is_reached(&answer["run"]) {
                return answer["run"].clone();
            }
            assert!(begin.elapsed() < LIMIT, "{answer:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args([name, &self.process.id().to_string()])
            .status()
            .unwrap();
        assert!(done.success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn folders() -> (TempDir, std::path::PathBuf, std::path::PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let trainer = stub_trainer(root.path());
    let data = root.path().join("data");
    (root, data, trainer)
}

#[test]
fn version_and_help_are_the_reviewed_ones() {
    let version = board().arg("version").output().unwrap();
    assert_eq!(
        String::from_utf8(version.stdout).unwrap(),
        format!("board {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = board().args(["serve", "--help"]).output().unwrap();
    insta::assert_snapshot!("serve_help", String::from_utf8(help.stdout).unwrap());
}

#[test]
fn port_in_use_is_one_clear_line_with_a_way_out() {
    let (_root, data, _) = folders();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (output, text) = output(
        board()
            .args(["serve", "--port", &port.to_string(), "--data-dir"])
            .arg(data),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.starts_with(&format!("error: port {port} on 127.0.0.1 is in use")),
        "{text}"
    );
    assert!(
        text.contains("--port") && text.lines().count() == 2,
        "{text}"
    );
}

#[test]
fn folder_that_cannot_be_written_is_named_with_a_way_out() {
    let (root, ..) = folders();
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (output, text) = output(
        board()
            .args(["serve", "--port", "0", "--data-dir"])
            .arg(file.join("data")),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("file/data` is not writable") && text.contains("--data-dir"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn second_board_on_the_same_folder_is_refused_with_the_address_of_the_first() {
    let (_root, data, trainer) = folders();
    let first = Served::start(&data, &trainer, 0);
    let (output, text) = output(
        board()
            .args(["serve", "--port", "0", "--data-dir"])
            .arg(&data),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("another board")
            && text.contains(&format!("http://127.0.0.1:{}", first.port)),
        "{text}"
    );
}

#[test]
fn other_addresses_than_loopback_are_refused_with_the_reason() {
    for host in ["0.0.0.0", "192.168.1.1", "::"] {
        let (output, text) = output(board().args(["serve", "--host", host]));
        assert_eq!(output.status.code(), Some(2));
        assert!(text.contains("login"), "{text}");
    }
}

#[test]
fn data_folder_is_private_and_only_loopback_listens() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_root, data, trainer) = folders();
    let served = Served::start(&data, &trainer, 0);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("board.sqlite")), 0o600);
    let hex = format!(":{:04X}", served.port);
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap()
        + &std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    let local: Vec<_> = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .filter(|at| at.ends_with(&hex))
        .collect();
    assert!(
        !local.is_empty() && local.iter().all(|at| at.starts_with("0100007F")),
        "{local:?}"
    );
}

#[test]
fn told_to_end_the_board_says_goodbye_and_leaves_the_trainer() {
    let (root, data, trainer) = folders();
    let mut served = Served::start(&data, &trainer, 0);
    let run = served.json("POST", "/api/v1/runs", GOOD_YAML)["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    served.wait_for(&run, |run| run["step"] == 3);
    let mut stream = served.connect(&format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    ));
    let mut first = [0; 15];
    stream.read_exact(&mut first).unwrap(); // the stream is open
    let begin = Instant::now();
    served.signal("-TERM");
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(
        text.contains("event: end\n") && text.contains("board_stopped"),
        "{text}"
    );
    assert!(served.process.wait().unwrap().success());
    assert!(begin.elapsed() < Duration::from_secs(5));
    let mut log = String::new();
    served.rest.read_to_string(&mut log).unwrap();
    assert!(log.contains("the trainers go on"), "{log}");

    let served = Served::start(&data, &trainer, 0);
    assert_eq!(
        served.wait_for(&run, |run| run["step"] == 3)["state"],
        "running"
    );
    std::fs::write(root.path().join("go"), "").unwrap();
    assert_eq!(
        served.wait_for(&run, |run| run["exit"].is_object())["state"],
        "finished"
    );
}

#[test]
fn killed_board_comes_back_without_a_missing_or_doubled_point() {
    let (root, data, trainer) = folders();
    let mut served = Served::start(&data, &trainer, 0);
    let run = served.json("POST", "/api/v1/runs", GOOD_YAML)["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    served.wait_for(&run, |run| run["step"].as_u64() > Some(0));
    served.signal("-KILL");
    served.process.wait().unwrap();
    std::fs::write(root.path().join("go"), "").unwrap();

    let served = Served::start(&data, &trainer, served.port);
    assert_eq!(
        served.wait_for(&run, |run| run["exit"].is_object())["state"],
        "finished"
    );
    let csv = served.exchange(
        "GET",
        &format!("/api/v1/runs/{run}/metrics?format=csv&name=loss"),
        "",
    );
    let rows: Vec<_> = csv.lines().filter(|line| line.contains(",loss,")).collect();
    let steps: Vec<_> = rows
        .iter()
        .map(|row| row.split(',').next().unwrap())
        .collect();
    assert_eq!(steps, ["1", "2", "3", "4", "5", "6"], "{csv}");
    assert!(rows[1].ends_with("NaN"));
}

#[test]
fn board_starts_within_half_a_second() {
    let (_root, data, trainer) = folders();
    drop(Served::start(&data, &trainer, 0)); // unpacks the demo and makes the database
    let start = || {
        let begin = Instant::now();
        let served = Served::start(&data, &trainer, 0);
        let answer = served.exchange("GET", "/healthz", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        begin.elapsed()
    };
    // The best of a few: the machine may be busy with other tests.
    let best = (0..5).map(|_| start()).min().unwrap();
    let limit = if cfg!(debug_assertions) { 3_000 } else { 500 };
    assert!(best < Duration::from_millis(limit), "{best:?}");
}

#[test]
fn too_many_or_too_large_headers_are_refused_and_the_board_lives() {
    let (_root, data, trainer) = folders();
    let served = Served::start(&data, &trainer, 0);
    let many = "x-many: a\r\n".repeat(10_000);
    let large = format!("x: {}\r\n", "a".repeat(1 << 20));
    for headers in [many, large] {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        drop(stream.write_all(request.as_bytes())); // the board may close before it has read everything
        let mut answer = [0; 12];
        if stream.read_exact(&mut answer).is_ok() {
            assert_eq!(&answer, b"HTTP/1.1 431");
        }
    }
    let smuggled = "POST /api/v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /x";
    let mut answer = [0; 12];
    drop(served.connect(smuggled).read_exact(&mut answer));
    assert_ne!(&answer[9..], b"200");
    assert!(
        served
            .exchange("GET", "/healthz", "")
            .starts_with("HTTP/1.1 200")
    );
}
