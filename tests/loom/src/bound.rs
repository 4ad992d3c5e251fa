//! A full mailbox refuses messages, and notifies the refused senders when there is room. No sender waits forever, and
//! the mailbox never contains more messages than its capacity.

use crate::check;
use crate::fixture::{Fixture, ID};
use loom::sync::Arc;
use loom::thread;

fn sender(fixture: &Arc<Fixture>, id: u32, count: u32) -> thread::JoinHandle<u32> {
    let fixture = fixture.clone();
    thread::spawn(move || (0..count).take_while(|&number| fixture.post_or_wait(id, number)).count() as u32)
}

fn full(capacity: usize, senders: u32, each: u32, most: usize) {
    let fixture = Arc::new(Fixture::new(capacity));
    let threads: Vec<_> = (1..=senders).map(|id| sender(&fixture, id, each)).collect();
    let count = (senders * each) as usize;
    fixture.work(count, most);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), each, "all messages were accepted");
    }
    let level = fixture.mailbox.statistics();
    assert!(level.peak <= capacity, "the peak exceeds the capacity {capacity}: {level:?}");
    fixture.assert_idle(count);
}

#[test]
fn a_refused_sender_is_notified_of_room_one_place() {
    check(3, || full(1, 1, 3, 8));
}

#[test]
fn a_refused_sender_is_notified_of_room_two_places() {
    check(3, || full(2, 1, 4, 8));
}

#[test]
fn a_sender_is_notified_of_room_if_the_last_message_ends_the_slice() {
    check(3, || full(1, 1, 3, 1));
}

#[test]
fn two_refused_senders_are_notified_of_room() {
    check(2, || full(1, 2, 2, 8));
}

#[test]
fn a_sender_is_notified_of_room_by_short_slices() {
    check(3, || full(2, 1, 4, 1));
}

#[test]
fn a_sender_that_waits_for_room_is_notified_of_the_death() {
    check(3, || {
        let fixture = Arc::new(Fixture::new(1));
        let thread = sender(&fixture, 1, 3);
        let id = fixture.next().expect("a message");
        let mut body = fixture.begin(id).expect("ready");
        fixture.receive(&mut body);
        let mut left: Vec<_> = body.batch.drain(..).collect();
        fixture.notify(fixture.mailbox.close(&mut left));
        let taken = thread.join().unwrap() as usize;
        assert_eq!(taken, body.read.len() + left.len());
        assert!(fixture.mailbox.is_dead(ID));
    });
}
