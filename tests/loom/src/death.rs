//! A service dies while other services send messages to it. Exactly one of these statements is true for each message:
//! it was read, it is left over for root, or it was returned to its sender.

use crate::check;
use crate::fixture::{Fixture, ID, Note};
use crate::mailbox::Refusal;
use loom::sync::Arc;
use loom::thread;

/// Starts a thread that posts `count` messages, and asserts that no message is accepted after a refused message. The
/// thread returns the number of accepted messages.
fn sender(fixture: &Arc<Fixture>, id: u32, count: u32) -> thread::JoinHandle<u32> {
    let fixture = fixture.clone();
    thread::spawn(move || {
        let mut taken = 0;
        for number in 0..count {
            match fixture.post(id, number) {
                Ok(()) => {
                    assert_eq!(taken, number, "a message was accepted after the service had died");
                    taken += 1;
                }
                Err(refusal) => assert_eq!(refusal, Refusal::Missing),
            }
        }
        taken
    })
}

/// Asserts that the messages that were read or left over are the first `taken` messages of each sender, in order.
fn assert_all(read: &[Note], left: &[Note], taken: &[u32]) {
    for (at, &taken) in taken.iter().enumerate() {
        let from = at as u32 + 1;
        let mine = read.iter().chain(left).filter(|note| note.from == from);
        let numbers: Vec<_> = mine.map(|note| note.number).collect();
        assert_eq!(numbers, (0..taken).collect::<Vec<_>>());
    }
}

#[test]
fn a_message_is_left_over_or_returned_when_the_service_ends_itself() {
    check(3, || {
        let fixture = Arc::new(Fixture::new(64));
        let threads = [sender(&fixture, 1, 2), sender(&fixture, 2, 2)];
        let id = fixture.next().expect("a message");
        let mut body = fixture.begin(id).expect("ready");
        assert!(fixture.receive(&mut body));
        let mut left: Vec<_> = body.batch.drain(..).collect();
        fixture.mailbox.close(&mut left);
        assert!(fixture.post(3, 0) == Err(Refusal::Missing));
        let taken = threads.map(|thread| thread.join().unwrap());
        assert_all(&body.read, &left, &taken);
        assert!(fixture.mailbox.take_messages().is_empty(), "the mailbox of a dead service is empty");
        assert!(fixture.mailbox.free(ID));
    });
}

#[test]
fn a_service_is_seized_or_run_and_no_message_is_lost() {
    check(3, || {
        let fixture = Arc::new(Fixture::new(64));
        let sending = sender(&fixture, 1, 2);
        let other = fixture.clone();
        // A worker that runs slices until the ready queue is empty or the service is dead.
        let working = thread::spawn(move || {
            let mut slices = 0;
            while let Some(id) = other.next_now() {
                let Some(body) = other.begin(id) else { break };
                other.slice(body, 1);
                slices += 1;
            }
            slices
        });
        let mut left = Vec::new();
        let seized = fixture.mailbox.kill(ID, &mut left);
        let taken = sending.join().unwrap();
        working.join().unwrap();
        let read = match seized {
            Some((body, _)) => {
                let mut body = body.expect("the VM of the service was created");
                assert!(fixture.begin(ID).is_none(), "the service is dead");
                body.batch.extend(left.drain(..));
                left = body.batch.into();
                body.read
            }
            None => {
                // The worker was running the service, so the service continues.
                while let Some(id) = fixture.next_now() {
                    let body = fixture.begin(id).expect("the service is ready");
                    fixture.slice(body, 8);
                }
                assert_eq!(taken, 2);
                fixture.mailbox.take_vm().expect("idle").read
            }
        };
        assert_all(&read, &left, &[taken]);
        assert!(fixture.mailbox.take_messages().is_empty());
    });
}

#[test]
fn an_old_entry_in_the_ready_queue_does_not_run_the_next_service_of_the_slot() {
    const NEXT: u32 = ID + 16;
    check(3, || {
        let fixture = Arc::new(Fixture::new(64));
        fixture.post(1, 0).expect("there is room");
        let other = fixture.clone();
        let worker = thread::spawn(move || {
            let id = other.next_now().expect("the service was queued");
            other.begin(id).is_some()
        });
        let mut left = Vec::new();
        let seized = fixture.mailbox.kill(ID, &mut left).is_some();
        if seized {
            assert!(fixture.mailbox.free(ID));
            fixture.mailbox.open(NEXT);
            let _ = fixture.mailbox.push(NEXT, Note { from: 2, number: 0 }, true, 0);
            let _ = fixture.mailbox.install(Default::default(), crate::mailbox::Affinity::Any);
        }
        let ran = worker.join().unwrap();
        assert!(ran != seized, "either the worker has the body or root has");
        if seized {
            let body = fixture.begin(NEXT).expect("the new service is ready");
            assert_eq!(body.batch, [Note { from: 2, number: 0 }]);
        }
    });
}
