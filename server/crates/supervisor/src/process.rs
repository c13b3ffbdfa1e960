//! Processes by pid and start time, so that a pid that another program uses by now is not taken for a launcher.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use board_store::ProcessKey;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// What `/proc/<pid>/stat` tells of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: u8,
    group: u32,
    start_time: u64,
}

/// Reads the line of `/proc/<pid>/stat`. The name of the program is in brackets and may hold anything, brackets too.
fn parse_stat(line: &str) -> Option<Stat> {
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    let group = fields.nth(1)?.parse().ok()?;
    // The start time is field 22 of the line; the group was field 5.
    let start_time = fields.nth(16)?.parse().ok()?;
    Some(Stat {
        state,
        group,
        start_time,
    })
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the full key of a process that was just started.
pub(crate) fn key_of(pid: u32) -> Option<ProcessKey> {
    Some(ProcessKey {
        pid,
        start_time: stat(pid)?.start_time,
    })
}

/// Whether the process is there. One that has ended but was not yet waited for is not.
pub(crate) fn is_alive(key: ProcessKey) -> bool {
    stat(key.pid)
        .is_some_and(|stat| stat.start_time == key.start_time && !matches!(stat.state, b'Z' | b'X'))
}

/// Sends a signal to the process itself, if it is there.
pub(crate) fn signal(key: ProcessKey, signal: Signal) -> bool {
    is_alive(key) && pid(key.pid).is_some_and(|pid| kill(pid, signal).is_ok())
}

/// Kills the whole process group of a launcher that is there.
pub(crate) fn kill_group(key: ProcessKey) -> bool {
    is_alive(key)
        && pid(key.pid).is_some_and(|pid| match killpg(pid, Signal::SIGKILL) {
            Ok(()) => true,
            Err(error) => {
                if error != Errno::ESRCH {
                    tracing::warn!(pid = key.pid, %error, "a process group could not be killed");
                }
                false
            }
        })
}

/// Kills what is left of the group of a launcher that is gone: ranks that outlived it. The group's number may belong to
/// another program by now, so only processes that work in the run directory are meant.
pub(crate) fn kill_left_over(group: u32, run_dir: &Path) -> usize {
    let is_meant = |pid: u32| {
        stat(pid).is_some_and(|stat| stat.group == group && !matches!(stat.state, b'Z' | b'X'))
            && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder == run_dir)
    };
    pids()
        .filter(|process| is_meant(*process))
        .filter(|process| pid(*process).is_some_and(|pid| kill(pid, Signal::SIGKILL).is_ok()))
        .count()
}

/// Returns the launcher of a run directory, found by its command line: for a board that ended between starting it and
/// writing down its pid.
pub(crate) fn find_launcher(run_dir: &Path) -> Option<ProcessKey> {
    let is_launcher = |pid: u32| {
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
            return false;
        };
        let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let names_dir = arguments
            .windows(2)
            .any(|pair| pair == [b"--run-dir", run_dir.as_os_str().as_bytes()]);
        // A launcher leads its group; its ranks do not.
        names_dir && stat(pid).is_some_and(|stat| stat.group == pid)
    };
    pids().find(|pid| is_launcher(*pid)).and_then(key_of)
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns a pid as a signal takes it; 0 and 1 would mean everybody.
fn pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 1)
        .map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_brackets_does_not_shift_the_fields() {
        let line = "77 (a) b) c) S 1 70 70 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 987654 1 1 1";
        assert_eq!(
            parse_stat(line),
            Some(Stat {
                state: b'S',
                group: 70,
                start_time: 987_654
            })
        );
        assert_eq!(parse_stat("77 (a"), None);
    }

    #[test]
    fn pid_with_another_start_time_is_another_process() {
        let me = key_of(std::process::id()).unwrap();
        assert!(is_alive(me));
        let reused = ProcessKey {
            start_time: me.start_time + 1,
            ..me
        };
        assert!(!is_alive(reused));
        assert!(!signal(reused, Signal::SIGTERM));
        assert!(!kill_group(reused));
    }

    #[test]
    fn everybody_is_never_signalled() {
        assert_eq!(pid(0), None);
        assert_eq!(pid(1), None);
        assert_eq!(pid(u32::MAX), None);
    }
}
