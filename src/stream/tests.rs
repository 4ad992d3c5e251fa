//! Tests of streams on one end of a socket pair, registered with a selector as in `net.lua`.

use super::broadcast::Delivery;
use super::receive::{Received, RecvForm};
use super::{Filled, Pool, Stream, TURN_BUDGET};
use crate::event::{Mode, READ, Selector};
use crate::socket::{Attempt, Socket, Table};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

/// Returns a stream, its peer's socket, and the selector with which the stream is registered.
fn connected() -> (Stream, Socket, Rc<Selector>) {
    let (near, far) = Socket::pair(&Rc::new(Table::default())).unwrap();
    let core = Selector::new(16).unwrap();
    let source = near.source().unwrap();
    source.join(&core, 0, Mode::Once).unwrap();
    let stream = Stream::new(near, &Rc::new(Pool::default()));
    (stream, far, core)
}

/// Waits once. Returns whether the stream is readable.
fn is_due(core: &Selector, timeout: Duration) -> bool {
    core.wait(Some(timeout), || false).unwrap();
    let mut due = false;
    while let Some((_, bits)) = core.next() {
        due |= bits & READ != 0;
    }
    due
}

fn fill_pipe(socket: &Socket) {
    while let Ok(Attempt::Done(_)) = socket.send(&[b'x'; 4096]) {}
}

#[test]
fn a_peer_that_sends_without_pause_is_read_again_in_the_next_round() {
    let (mut stream, far, core) = connected();
    let mut reads = 0;
    loop {
        fill_pipe(&far);
        assert!(reads <= TURN_BUDGET * 10, "the stream reads while other streams wait");
        if stream.fill(0).unwrap() == Filled::WouldBlock {
            break;
        }
        reads += 1;
        stream.consume(stream.buffered().len());
        // As in a wait, the selector reports that more data is available.
        stream.arm(READ).unwrap();
        is_due(&core, Duration::ZERO);
    }
    assert_eq!(reads, TURN_BUDGET);
    assert!(is_due(&core, Duration::from_secs(5)), "an event arrives immediately");
    assert!(stream.fill(0).unwrap() == Filled::Some);
}

#[test]
fn work_on_received_bytes_counts_as_reads() {
    let (mut stream, far, core) = connected();
    let mut count = || {
        let mut reads = 0;
        loop {
            fill_pipe(&far);
            if stream.fill(0).unwrap() == Filled::WouldBlock {
                break reads;
            }
            reads += 1;
            stream.spend(u64::from(TURN_BUDGET) / 2 - 1);
            stream.consume(stream.buffered().len());
            stream.arm(READ).unwrap();
            is_due(&core, Duration::ZERO);
        }
    };
    assert_eq!(count(), 2);
    assert!(is_due(&core, Duration::from_secs(5)), "an event arrives immediately");
    stream.spend(u64::MAX);
    assert!(stream.fill(0).unwrap() == Filled::WouldBlock);
}

#[test]
fn an_idle_stream_owns_no_buffer() {
    let (mut stream, far, _core) = connected();
    far.send(b"hello").unwrap();
    assert_eq!(stream.receive(RecvForm::Any).unwrap(), Received::Ready { length: 5, consume: 5 });
    assert!(!stream.input.is_vacant());
    stream.consume(5);
    assert!(stream.input.is_vacant());
    assert_eq!(stream.receive(RecvForm::Any).unwrap(), Received::WouldBlock);
    assert!(stream.input.is_vacant());
}

#[test]
fn a_stream_that_waits_does_not_keep_the_wide_buffer() {
    let (mut stream, far, _core) = connected();
    let message = vec![b'm'; 60_000];
    far.send(&message).unwrap();
    let line = RecvForm::Line { limit: 1 << 20 };
    assert_eq!(stream.receive(line).unwrap(), Received::WouldBlock);
    assert!(!stream.input.is_wide());
    assert_eq!(stream.buffered(), message);
    far.send(b"\n").unwrap();
    stream.untried = true;
    assert_eq!(stream.receive(line).unwrap(), Received::Ready { length: 60_000, consume: 60_001 });
}

#[test]
fn a_huge_requested_size_allocates_nothing() {
    let (mut stream, far, _core) = connected();
    far.send(b"few").unwrap();
    let asked = RecvForm::Exactly(usize::MAX / 2);
    assert_eq!(stream.receive(asked).unwrap(), Received::WouldBlock);
    let capacity = stream.input.fill(0, &stream.pool, |memory| memory.capacity());
    assert!(capacity < 1 << 20);
    assert_eq!(stream.buffered(), b"few");
}

#[test]
fn the_queue_is_sent_before_the_pieces() {
    let (mut stream, far, _core) = connected();
    stream.queue().append(|out| out.extend_from_slice(b"queued,"));
    let pieces: Vec<Vec<u8>> = (0..200).map(|n| format!("{n},").into_bytes()).collect();
    let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let mut sent = 0;
    assert!(stream.send(&slices, &mut sent).unwrap());
    assert_eq!(sent, pieces.concat().len());
    assert_eq!(stream.queued(), 0);
    let mut got = Vec::with_capacity(4096);
    let Ok(Attempt::Done(_)) = far.receive(&mut got) else {
        panic!("no data");
    };
    assert_eq!(got, [b"queued,".as_slice(), &pieces.concat()].concat());
}

/// Returns all received data.
fn drained(far: &Socket) -> Vec<u8> {
    let (mut all, mut room) = (Vec::new(), Vec::with_capacity(65536));
    while let Ok(Attempt::Done(1..)) = far.receive(&mut room) {
        all.append(&mut room);
    }
    all
}

#[test]
fn broadcast_messages_are_sent_once_and_in_order_with_others() {
    let (mut stream, far, _core) = connected();
    let big: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut want = Vec::new();
    let most = usize::MAX;
    for text in [&b"first"[..], &big, b"third", &big] {
        let delivery = stream.broadcast(text, &mut None, most);
        let is_first = want.is_empty();
        assert_eq!(delivery, if is_first { Delivery::Sent } else { Delivery::Queued });
        want.extend_from_slice(text);
    }
    let (last, mut sent) = (b"last".as_slice(), 0);
    let mut got = Vec::new();
    while !stream.send(&[last, last], &mut sent).unwrap() {
        got.extend(drained(&far));
    }
    got.extend(drained(&far));
    assert_eq!((stream.queued(), sent), (0, 8));
    assert!(stream.output.is_none());
    assert!(got == [&want[..], b"lastlast"].concat());
    assert_eq!(stream.broadcast(b"x", &mut None, 0), Delivery::Sent);
}

#[test]
fn a_stream_with_a_full_queue_accepts_no_broadcast_message() {
    let (mut stream, far, _core) = connected();
    let big = vec![b'y'; 8 << 20];
    let mut copy = None;
    assert_eq!(stream.broadcast(&big, &mut copy, 0), Delivery::Queued);
    assert_eq!(stream.broadcast(&big, &mut copy, big.len()), Delivery::Full);
    let most = stream.queued() + 1000;
    let short = (0..100).map(|_| stream.broadcast(b"x", &mut None, most));
    let taken = short.filter(|delivery| *delivery == Delivery::Queued).count();
    assert!((1..20).contains(&taken), "{taken}");
    stream.holders.has_writer = true;
    assert_eq!(stream.broadcast(b"x", &mut None, usize::MAX), Delivery::Full);
    stream.holders.has_writer = false;
    drop(far);
    assert!(stream.send(&[], &mut 0).is_err());
    assert_eq!(stream.broadcast(b"x", &mut None, usize::MAX), Delivery::Closed);
    stream.close();
    assert_eq!((stream.broadcast(&big, &mut copy, 0), stream.queued()), (Delivery::Closed, 0));
}

#[test]
fn shared_bytes_are_transferred_to_another_vm_and_sent_before_files() {
    let (mut stream, far, _core) = connected();
    let big = vec![b'y'; 4 << 20];
    assert_eq!(stream.broadcast(&big, &mut None, 0), Delivery::Queued);
    assert_eq!(stream.broadcast(b"z", &mut None, usize::MAX), Delivery::Queued);
    let number = stream.make_parcel(0).expect("open");
    let (pool, table) = (Rc::new(Pool::default()), Rc::new(Table::default()));
    let mut other = Stream::from_parcel(number, &pool, &table).expect("a parcel");
    let mut got = Vec::new();
    while !other.send(&[], &mut 0).unwrap() {
        got.extend(drained(&far));
    }
    got.extend(drained(&far));
    assert!(got.len() == big.len() + 1 && got.ends_with(b"yz"));
    assert_eq!(other.broadcast(&big, &mut None, 0), Delivery::Queued);
    let path = std::env::temp_dir().join(format!("lio-broadcast-{}", std::process::id()));
    std::fs::write(&path, "file").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (mut got, mut sent) = (Vec::new(), 0);
    while !matches!(other.send_file(file.as_fd(), 0, 4, &mut sent), Ok(super::queue::Sent::All)) {
        got.extend(drained(&far));
    }
    got.extend(drained(&far));
    assert!(got.len() == big.len() + 4 && got.ends_with(b"yfile"));
}

#[test]
fn a_full_pipe_accepts_a_part_and_reports_its_size() {
    let (mut stream, far, _core) = connected();
    let big = vec![b'y'; 8 << 20];
    let mut sent = 0;
    assert!(!stream.send(&[b"head", &big], &mut sent).unwrap());
    assert!(sent > 4 && sent < big.len());
    let mut rest = [0; 65536];
    let mut received = 0;
    while received < big.len() + 4 {
        match far.receive_into(&mut rest).unwrap() {
            Attempt::Done(count) => received += count,
            Attempt::WouldBlock => {
                stream.send(&[b"head", &big], &mut sent).unwrap();
            }
        }
    }
    assert_eq!(sent, big.len() + 4);
}

/// Like [`connected`], but the stream is registered at its first wait, as the streams that a web server accepts are.
fn taken_over() -> (Stream, Socket, Rc<Selector>) {
    let (near, far) = Socket::pair(&Rc::new(Table::default())).unwrap();
    let core = Selector::new(16).unwrap();
    near.source().unwrap().join_later(&core, Mode::Once);
    let stream = Stream::new(near, &Rc::new(Pool::default()));
    (stream, far, core)
}

// Regression: the error was lost, and the connection waited forever.
#[test]
fn a_refused_wait_to_read_is_an_error_and_the_next_one_works() {
    let (mut stream, far, core) = taken_over();
    for _ in 0..2 {
        let refused = core.refused(|| stream.receive(RecvForm::Any));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert!(!core.refused(|| stream.arm_if_empty()), "the read returns the error");
    }
    assert_eq!(stream.receive(RecvForm::Any).unwrap(), Received::WouldBlock);
    far.send(b"hello").unwrap();
    assert!(is_due(&core, Duration::from_secs(5)));
    let hello = Received::Ready { length: 5, consume: 5 };
    assert_eq!(stream.receive(RecvForm::Any).unwrap(), hello);
}

#[test]
fn a_refused_wait_to_write_is_an_error_with_the_number_of_sent_bytes() {
    for make in [connected, taken_over] {
        let (mut stream, far, core) = make();
        let big = vec![b'y'; 8 << 20];
        let mut sent = 0;
        let refused = core.refused(|| stream.send(&[&big], &mut sent));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert!(sent > 0 && sent < big.len());
        assert!(!stream.send(&[&big], &mut sent).unwrap());
        let mut rest = [0; 65536];
        let mut received = 0;
        while let Ok(Attempt::Done(count)) = far.receive_into(&mut rest) {
            received += count;
        }
        assert_eq!(received, sent);
        core.wait(Some(Duration::from_secs(5)), || false).unwrap();
        let (_, bits) = core.next().unwrap();
        assert_eq!(bits, crate::event::WRITE);
    }
}
