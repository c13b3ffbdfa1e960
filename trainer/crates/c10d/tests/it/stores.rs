//! Stores: who serves, who joins, and what fails.

use std::{
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use tch::{Device, Kind, Tensor};
use trainer_c10d::{ErrorKind, ProcessGroup, ReduceOp, Store, quiet_logs};

use crate::ranks::{LIMIT, options};

const HOST: &str = "127.0.0.1";
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn ranks_meet_over_tcp_on_a_free_port() {
    quiet_logs();
    let server = Store::serve(HOST, 0, 4, false, LIMIT).unwrap();
    let port = server.port();
    assert_ne!(port, 0);
    let sums: Vec<f64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|rank| {
                scope.spawn(move || {
                    let store = Store::connect(HOST, port, 4, LIMIT).unwrap();
                    let group = ProcessGroup::gloo(&store, rank, 4, &options()).unwrap();
                    let tensor = Tensor::full([3], rank as i64, (Kind::Float, Device::Cpu));
                    group
                        .all_reduce(&tensor, ReduceOp::Sum)
                        .unwrap()
                        .wait()
                        .unwrap();
                    tensor.double_value(&[2])
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(sums, [6.0; 4]);
}

#[test]
fn keys_are_set_read_counted_and_prefixed() {
    quiet_logs();
    for store in [
        Store::in_process(LIMIT).unwrap(),
        Store::serve(HOST, 0, 1, true, LIMIT).unwrap(),
    ] {
        store.set("key", b"value\0\xff").unwrap();
        assert_eq!(store.get("key").unwrap(), b"value\0\xff");
        store.set("empty", b"").unwrap();
        assert_eq!(store.get("empty").unwrap(), b"");
        let other = store.try_clone().unwrap();
        assert_eq!(other.add("count", 2).unwrap(), 2);
        assert_eq!(store.add("count", 40).unwrap(), 42);
        let inner = store.prefixed("inner").unwrap();
        assert!(store.contains("key").unwrap() && !inner.contains("key").unwrap());
        inner.set("key", b"inner").unwrap();
        assert_eq!(store.get("key").unwrap(), b"value\0\xff");
        store.set_timeout(Duration::from_millis(200)).unwrap();
        let error = store.get("missing").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
        assert_eq!(store.set("nul\0", b"").unwrap_err().kind, ErrorKind::Other);
    }
}

#[test]
fn a_taken_port_is_a_network_error() {
    let taken = TcpListener::bind((HOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Store::serve(HOST, port, 1, false, SHORT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");
    assert!(error.hint().unwrap().contains("port"), "{error}");
}

#[test]
fn nobody_listening_is_a_timeout() {
    quiet_logs();
    let begin = Instant::now();
    let free = TcpListener::bind((HOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let error = Store::connect(HOST, port, 2, SHORT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert!(begin.elapsed() < LIMIT);
}

#[test]
fn a_rank_that_never_joins_is_a_timeout() {
    quiet_logs();
    let error = Store::serve(HOST, 0, 2, true, SHORT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
}

#[test]
fn a_store_whose_server_ended_is_a_network_error() {
    quiet_logs();
    let server = Store::serve(HOST, 0, 2, false, LIMIT).unwrap();
    let client = Store::connect(HOST, server.port(), 1, LIMIT).unwrap();
    client.set("key", b"value").unwrap();
    drop(server);
    let error = client.get("key").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");
}
