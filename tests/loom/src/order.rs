//! Every message is read exactly once, by one thread at a time; the messages of one sender are read in order. The
//! service is in the ready queue at most once, and it is never idle while it has messages.

use crate::check;
use crate::fixture::Fixture;
use loom::sync::Arc;
use loom::thread;

fn sender(fixture: &Arc<Fixture>, id: u32, count: u32) -> thread::JoinHandle<()> {
    let fixture = fixture.clone();
    thread::spawn(move || {
        for number in 0..count {
            fixture.post(id, number).expect("there is room");
        }
    })
}

fn senders_and_workers(senders: u32, each: u32, workers: usize, most: usize) {
    let fixture = Arc::new(Fixture::new(64));
    let count = (senders * each) as usize;
    let mut threads: Vec<_> = (1..=senders).map(|id| sender(&fixture, id, each)).collect();
    for _ in 1..workers {
        let fixture = fixture.clone();
        threads.push(thread::spawn(move || fixture.work(count, most)));
    }
    fixture.work(count, most);
    for thread in threads {
        thread.join().unwrap();
    }
    fixture.assert_idle(count);
}

#[test]
fn a_worker_reads_each_message_of_two_senders_once_and_in_order() {
    check(3, || senders_and_workers(2, 2, 1, 8));
}

#[test]
fn a_slice_that_leaves_messages_unread_is_followed_by_another() {
    check(3, || senders_and_workers(2, 2, 1, 1));
}

#[test]
fn two_workers_never_have_the_service_at_the_same_time() {
    check(3, || senders_and_workers(1, 3, 2, 1));
}

#[test]
fn messages_that_arrive_while_the_service_starts_are_read() {
    use crate::fixture::{Body, ID, NoWaker, Note};
    use crate::mailbox::{Affinity, Mailbox, Wake};
    check(3, || {
        let mailbox: Arc<Mailbox<Note, Body, NoWaker>> = Arc::new(Mailbox::new(64));
        mailbox.open(ID);
        let post = |from| {
            let mailbox = mailbox.clone();
            thread::spawn(move || {
                let pushed = mailbox.push(ID, Note { from, number: 0 }, true, 0);
                matches!(pushed.expect("there is room"), Wake::Schedule(_))
            })
        };
        let (one, two) = (post(1), post(2));
        let installed = mailbox.install(Body::default(), Affinity::Any);
        let mut scheduled = u32::from(matches!(installed, Wake::Schedule(_)));
        scheduled += u32::from(one.join().unwrap());
        scheduled += u32::from(two.join().unwrap());
        assert_eq!(scheduled, 1, "the service is queued once");
        let body = mailbox.begin_slice(ID, |body| &mut body.batch).expect("ready");
        assert_eq!(body.batch.len(), 2);
    });
}
