use super::*;
use crate::socket::{Attempt, Socket as Connection, Table};
use std::rc::Rc;

fn holder(owner: u32) -> Holder {
    Holder::new(owner, "TCP".into(), "peer".into())
}

const NO_NOTICE: Written = Written::Queued { notify: None };
const NOTIFY_9: Written = Written::Queued { notify: Some(9) };
const SEND: Commands = Commands { send: true, warning: None, end: None };

/// A socket with a shared writer, and both ends of its connection.
fn connected() -> (Holder, Connection, Connection) {
    let (mut near, far) = Connection::pair(&Rc::new(Table::default())).unwrap();
    let holder = holder(5);
    holder.set_writer(near.shared_writer().unwrap());
    (holder, near, far)
}

fn put(number: u32, bytes: &[u8]) -> Written {
    write(number, &[IoSlice::new(bytes)], Priority::High)
}

fn received(socket: &Connection) -> Vec<u8> {
    let mut bytes = [0; 256];
    match socket.receive_into(&mut bytes).unwrap() {
        Attempt::Done(count) => bytes[..count].to_vec(),
        Attempt::WouldBlock => Vec::new(),
    }
}

/// Takes all bytes, as the owner does.
fn drain(holder: &Holder) -> Vec<u8> {
    let mut all = Vec::new();
    while let Taken::Piece(piece) = holder.take() {
        all.extend(piece);
    }
    all
}

#[test]
fn a_write_goes_to_the_system_directly() {
    let (holder, _near, far) = connected();
    let pieces = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
    assert_eq!(write(holder.number(), &pieces, Priority::High), Written::Sent);
    assert_eq!(received(&far), b"abc");
}

#[test]
fn bytes_without_a_writer_are_queued_and_the_owner_is_notified_once() {
    let holder = holder(9);
    let number = holder.number();
    assert_eq!(put(number, b"a"), NOTIFY_9);
    assert_eq!(put(number, b"b"), NO_NOTICE);
    assert_eq!(holder.take_commands(), SEND);
    assert_eq!(holder.take(), Taken::Piece(b"ab".to_vec()));
    assert_eq!(put(number, b"c"), NO_NOTICE);
    assert_eq!(holder.take_commands(), Commands::default());
    assert_eq!(drain(&holder), b"c");
    assert_eq!(put(number, b"d"), NOTIFY_9);
}

#[test]
fn commands_stay_with_the_socket_until_its_holder_takes_them() {
    let first = holder(9);
    let number = first.number();
    assert_eq!(put(number, b"a"), NOTIFY_9);
    assert_eq!(end(number, End::Shutdown), None);
    assert_eq!(end(number, End::Close), None);
    let second = Holder::adopt(number, 2).unwrap();
    assert_eq!(first.take_commands(), Commands::default());
    assert_eq!(second.take_commands(), Commands { end: Some(End::Shutdown), ..SEND });
    assert_eq!(end(number, End::Close), Some(2));
    assert_eq!(second.take_commands(), Commands { end: Some(End::Close), ..Commands::default() });
    second.remove();
    assert_eq!(end(number, End::Close), None);
}

#[test]
fn nothing_overtakes_queued_bytes() {
    let (holder, near, far) = connected();
    let number = holder.number();
    let block = vec![b'x'; 1 << 16];
    let mut sent = 0;
    while let Written::Sent = put(number, &block) {
        sent += block.len();
    }
    while !received(&far).is_empty() {}
    // The system would accept these bytes now.
    assert_eq!(put(number, b"end"), NO_NOTICE);
    assert_eq!(received(&far), b"");
    let rest = drain(&holder);
    assert!(rest.ends_with(b"xend") && rest.len() <= block.len() + 3 && sent > 0);
    assert_eq!(put(number, b"direct"), Written::Sent);
    assert_eq!(received(&far), b"direct");
    drop(near);
}

#[test]
fn bytes_of_low_priority_wait_for_the_others() {
    let holder = holder(1);
    let number = holder.number();
    write(number, &[IoSlice::new(b"low")], Priority::Low);
    put(number, b"high");
    assert_eq!(holder.take(), Taken::Piece(b"high".to_vec()));
    assert_eq!(holder.take(), Taken::Piece(b"low".to_vec()));
}

#[test]
fn warnings_come_at_doubled_sizes_and_when_the_queue_is_empty() {
    let holder = holder(1);
    let number = holder.number();
    let block = vec![0; WARNING / 2];
    let warnings: Vec<_> = (0..8)
        .map(|_| {
            put(number, &block);
            holder.take_commands().warning
        })
        .collect();
    let sizes = [None, Some(WARNING), None, Some(2 * WARNING), None, None, None, Some(4 * WARNING)];
    assert_eq!(warnings, sizes);
    while let Taken::Piece(_) = holder.take() {}
    assert_eq!(holder.take(), Taken::Empty { was_warned: false });
    put(number, &vec![0; WARNING]);
    holder.take();
    assert_eq!(holder.take(), Taken::Empty { was_warned: true });
}

#[test]
fn only_the_last_holder_removes_a_socket() {
    let first = holder(1);
    let number = first.number();
    let second = Holder::adopt(number, 2).unwrap();
    drop(first);
    assert_eq!(owner(number), Some(2));
    drop(second);
    assert_eq!(owner(number), None);
    assert_eq!(put(number, b"x"), Written::Missing);
    assert!(Holder::adopt(number, 3).is_none());
}

#[test]
fn a_removed_socket_has_no_number() {
    let (first, second) = (holder(1), holder(2));
    first.remove();
    assert_eq!((owner(first.number()), owner(second.number())), (None, Some(2)));
    first.remove();
    drop(first);
    assert_eq!(owner(second.number()), Some(2));
}

#[test]
fn an_ended_socket_accepts_nothing_and_keeps_its_queue() {
    let holder = holder(1);
    put(holder.number(), b"queued");
    holder.end();
    assert_eq!(put(holder.number(), b"x"), Written::Missing);
    assert_eq!(drain(&holder), b"queued");
}

/// Regression: an error of the system ended the socket, and the owner was not notified.
#[test]
fn the_owner_tries_a_failed_write_again() {
    let (holder, _near, far) = connected();
    drop(far);
    assert_eq!(put(holder.number(), b"x"), Written::Queued { notify: Some(5) });
    assert_eq!(put(holder.number(), b"y"), NO_NOTICE);
    assert_eq!(holder.take_commands(), SEND);
    assert_eq!(drain(&holder), b"xy");
}

#[test]
fn the_list_describes_each_socket() {
    let holder = holder(77);
    put(holder.number(), b"abc");
    let list = list();
    let own = list.iter().find(|one| one.number == holder.number()).unwrap();
    assert_eq!((own.owner, own.kind.as_str(), own.name.as_str(), own.queued), (77, "TCP", "peer", 3));
    holder.take();
    holder.take();
    let list = super::list();
    let own = list.iter().find(|one| one.number == holder.number()).unwrap();
    assert_eq!((own.written, own.queued), (3, 0));
}
