//! Tests of the output queue, with a destination that accepts given numbers of bytes.

use super::*;
use proptest::prelude::*;
use std::rc::Rc;

/// A destination that accepts a given number of bytes in each call. The numbers in `program` are used in turn; a 0
/// makes the call return `WouldBlock`.
struct Taker {
    program: Vec<usize>,
    calls: usize,
    got: Vec<u8>,
}

impl Taker {
    fn new(program: &[usize]) -> Self {
        Taker { program: program.to_vec(), calls: 0, got: Vec::new() }
    }

    fn take(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        let most = self.program[self.calls % self.program.len()];
        self.calls += 1;
        if most == 0 {
            return Ok(Attempt::WouldBlock);
        }
        let count = data.len().min(most);
        self.got.extend_from_slice(&data[..count]);
        Ok(Attempt::Done(count))
    }
}

impl Sink for Taker {
    type File = Rc<Vec<u8>>;

    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.take(data)
    }
    fn send_more(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.take(data)
    }
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.take(&all)
    }
    fn send_file(&mut self, file: &Rc<Vec<u8>>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        let rest = &file[file.len().min(offset as usize)..];
        match &rest[..count.min(rest.len())] {
            [] => Ok(Attempt::Done(0)),
            data => self.take(data),
        }
    }
}

#[derive(Clone, Debug)]
enum Piece {
    Copied(usize),
    Shared(usize),
    File(usize, usize),
    Send,
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        (0usize..9000).prop_map(Piece::Copied),
        (0usize..9000).prop_map(Piece::Shared),
        (0usize..2000, 0usize..9000).prop_map(|(from, length)| Piece::File(from, length)),
        Just(Piece::Send),
    ]
}

proptest! {
    #[test]
    fn all_bytes_are_sent_in_order_and_once(
        pieces in prop::collection::vec(piece(), 1..12),
        mut program in prop::collection::vec(0usize..12_000, 1..8),
        borrowed in 0usize..20_000,
        cut in 50usize..30_000,
    ) {
        program.push(500);
        let mut to = Taker::new(&program);
        let mut queue = Queue::default();
        let (mut expected, mut count, mut next) = (Vec::new(), 0u64, 0u8);
        let mut fresh = |length: usize| -> Vec<u8> {
            next = next.wrapping_add(1);
            (0..length).map(|at| next.wrapping_mul(31).wrapping_add(at as u8)).collect()
        };
        for piece in pieces {
            match piece {
                Piece::Copied(length) => {
                    let data = fresh(length);
                    queue.append(|out| out.extend_from_slice(&data));
                    expected.extend_from_slice(&data);
                }
                Piece::Shared(length) => {
                    let data = fresh(length);
                    expected.extend_from_slice(&data);
                    queue.push_shared(data.into());
                }
                Piece::File(from, length) => {
                    let data = fresh(from + length);
                    expected.extend_from_slice(&data[from..]);
                    queue.push_file(Rc::new(data), from as u64, length as u64);
                }
                Piece::Send => {
                    queue.send(&mut to, &[], &mut 0, &mut count).unwrap();
                }
            }
        }
        let borrowed = fresh(borrowed);
        expected.extend_from_slice(&borrowed);
        let cut: Vec<&[u8]> = borrowed.chunks(cut).collect();
        let mut taken = 0;
        for _ in 0..10_000 {
            if queue.send(&mut to, &cut, &mut taken, &mut count).unwrap() == Sent::All {
                break;
            }
        }
        prop_assert_eq!(taken, borrowed.len());
        prop_assert!(queue.queued() == 0 && queue.items.is_empty());
        prop_assert_eq!(queue.queued(), 0);
        prop_assert_eq!(count, expected.len() as u64);
        prop_assert!(to.got == expected);
    }
}

#[test]
fn a_file_that_has_become_shorter_is_reported() {
    let mut queue = Queue::default();
    queue.append(|out| out.extend_from_slice(b"head"));
    queue.push_file(Rc::new(b"0123".to_vec()), 2, 4);
    let mut to = Taker::new(&[100]);
    let mut count = 0;
    let mut send = || queue.send(&mut to, &[], &mut 0, &mut count).unwrap();
    assert_eq!((send(), send()), (Sent::Blocked, Sent::FileTooShort));
    assert_eq!(count, 6);
    assert_eq!(to.got, b"head23");
}

#[test]
fn a_long_file_is_sent_in_turns() {
    let mut queue = Queue::default();
    let file = Rc::new(vec![7; FILE_BUDGET as usize + 10]);
    queue.push_file(file, 0, FILE_BUDGET + 10);
    let mut to = Taker::new(&[usize::MAX]);
    let mut count = 0;
    let mut send = || queue.send(&mut to, &[], &mut 0, &mut count).unwrap();
    assert_eq!((send(), send()), (Sent::BudgetSpent, Sent::All));
    assert_eq!(count, FILE_BUDGET + 10);
}

#[test]
fn shared_bytes_are_not_copied() {
    let shared = Bytes::from(vec![1; SHARE_FROM]);
    let mut queue: Queue<()> = Queue::default();
    queue.push_shared(shared.clone());
    assert!(matches!(&queue.items[0], Item::Shared(queued) if queued.as_ptr() == shared.as_ptr()));
    queue.append(|out| out.extend_from_slice(b"tail"));
    assert_eq!(queue.copy().map(|all| all.len()), Some(SHARE_FROM + 4));
    queue.clear();
    assert!(queue.queued() == 0 && queue.items.is_empty());
}
