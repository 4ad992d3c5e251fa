//! The target of a fuzzer: the mailbox and the tables of the scheduler, without threads. The input is a list of
//! operations; each structure is compared with a simple model. `tests/loom` checks the mailbox with threads.

use super::mailbox::{Affinity, Mailbox, Refusal, Wake, Waker};
use super::ready_queues::ReadyQueues;
use super::registry::Registry;
use super::timers::{ExpiredTimer, Timers};
use super::unanswered::Unanswered;
use crate::codec::fuzz_input::Input;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// The maximum number of operations of one input.
const MAX_STEPS: usize = 2000;

/// Runs the operations of an input on one of the structures. Returns a number that shows how much has happened.
pub(crate) fn scheduler(data: &[u8]) -> usize {
    let mut input = Input(data);
    match input.byte() % 8 {
        0..=3 => mailbox(&mut input),
        4 => registry(&mut input),
        5 => timers(&mut input),
        6 => unanswered(&mut input),
        _ => ready_queues(&mut input),
    }
}

/// A waker that records whether the thread must be woken.
#[derive(Clone, Debug)]
struct Flag(Rc<Cell<bool>>);

impl Waker for Flag {
    fn claim(&self) -> bool {
        self.0.replace(false)
    }
    fn arm(&self) {
        self.0.set(true);
    }
}

/// A message: its number, and whether it counts towards the capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message(usize, bool);

/// The VM of the service: its batch.
type Vm = VecDeque<Message>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Building,
    Idle,
    Ready,
    Running,
    OwnThread,
    Dead,
}

/// The expected content of the mailbox.
struct Model {
    state: State,
    id: u32,
    /// The messages that were pushed and not transferred to the batch, and those that were and are unread.
    queue: VecDeque<Message>,
    batch: VecDeque<Message>,
    /// The VM, while the service runs.
    vm: Option<Vm>,
    refused: Vec<u32>,
    received: u64,
    peak: usize,
    waker: Flag,
    affinity: Affinity,
}

impl Model {
    fn bounded(&self) -> usize {
        self.queue.iter().chain(&self.batch).filter(|one| one.1).count()
    }

    fn transfer(&mut self) {
        let moved = self.queue.drain(..);
        self.batch.extend(moved);
    }

    fn is_alive(&self) -> bool {
        !matches!(self.state, State::Free | State::Dead)
    }

    /// Checks what happens to the messages and the waiting senders of a service that dies.
    fn died(&mut self, left: &[Message], refused: &[u32]) {
        assert!(left.iter().eq(self.queue.iter()), "the messages of a dead service are returned in order");
        assert_eq!(refused, self.refused, "the waiting senders of a dead service");
        self.state = State::Dead;
        self.queue.clear();
        self.batch.clear();
        self.refused.clear();
    }
}

fn mailbox(input: &mut Input<'_>) -> usize {
    let capacity = usize::from(input.byte() % 6) + 1;
    let mailbox = Mailbox::<Message, Vm, Flag>::new(capacity);
    let mut model = Model {
        state: State::Free,
        id: 0,
        queue: VecDeque::new(),
        batch: VecDeque::new(),
        vm: None,
        refused: Vec::new(),
        received: 0,
        peak: 0,
        waker: Flag(Rc::default()),
        affinity: Affinity::Any,
    };
    let (mut number, mut read) = (0, 0);
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() {
            break;
        }
        let (operation, argument) = (input.byte() % 20, input.byte());
        let affinity = [Affinity::Any, Affinity::Worker(3), Affinity::Main][usize::from(argument % 3)];
        let waits = || (argument & 1 != 0).then(|| Flag(Rc::default()));
        match operation {
            0 if model.state == State::Free => {
                model.id += 64;
                mailbox.open(model.id);
                (model.state, model.received, model.peak, model.affinity) = (State::Building, 0, 0, Affinity::Any);
            }
            1 if model.state == State::Building => {
                let wake = mailbox.install(Vm::new(), affinity);
                model.affinity = affinity;
                model.state = match (wake, model.queue.is_empty()) {
                    (Wake::None, true) => State::Idle,
                    (Wake::Schedule(to), false) if to == affinity => State::Ready,
                    (other, _) => panic!("a wrong {other:?}"),
                };
            }
            2..=6 => {
                number += 1;
                push(&mailbox, &mut model, Message(number, argument & 1 != 0), u32::from(argument >> 1 & 3), capacity);
            }
            7 => assert!(
                matches!(
                    mailbox.push(model.id + 1, Message(0, false), false, 1),
                    Err((Message(0, false), Refusal::Missing))
                ),
                "a message for another service"
            ),
            8 | 9 => {
                let vm = mailbox.begin_slice(model.id, |vm| vm);
                assert_eq!(vm.is_some(), model.state == State::Ready, "only a ready service runs");
                if vm.is_some() {
                    model.vm = vm;
                    model.state = State::Running;
                    model.transfer();
                }
            }
            10 if model.vm.is_some() => {
                assert_eq!(mailbox.has_arrived(), !model.queue.is_empty());
                let batch = model.vm.as_mut().expect("runs");
                let unread = mailbox.refill(batch);
                model.transfer();
                assert_eq!(unread, model.batch.len());
                if model.state == State::OwnThread && unread == 0 {
                    assert!(model.waker.0.get(), "the next sender wakes the thread");
                }
            }
            11..=13 if model.vm.is_some() => {
                let batch = model.vm.as_mut().expect("runs");
                let message = batch.pop_front();
                assert_eq!(message, model.batch.pop_front(), "messages are read in order");
                let Some(message) = message else { continue };
                read += 1;
                let room = mailbox.record_read(message.1);
                let unread = model.batch.iter().filter(|one| one.1).count();
                assert_eq!(room, unread <= capacity / 2 && !model.refused.is_empty(), "whether senders wait for room");
                if message.1 && argument & 7 == 0 {
                    // The service keeps the message and reads it again later.
                    mailbox.record_held();
                    model.vm.as_mut().expect("runs").push_front(message);
                    model.batch.push_front(message);
                }
            }
            14 if model.vm.is_some() => {
                assert_eq!(mailbox.has_refused(), !model.refused.is_empty());
                let has_room = model.bounded() <= capacity / 2;
                let expected = if has_room { std::mem::take(&mut model.refused) } else { Vec::new() };
                assert_eq!(mailbox.take_refused(), expected, "the senders that get a ROOM message");
            }
            15 if model.state == State::Running => {
                let vm = model.vm.take().expect("runs");
                let left = vm.len();
                let next = mailbox.end_slice(vm, left, affinity);
                model.affinity = affinity;
                let is_idle = model.queue.is_empty() && left == 0;
                assert_eq!(next, (!is_idle).then_some(affinity), "a service with messages is ready");
                model.state = if is_idle { State::Idle } else { State::Ready };
            }
            16 => {
                let waker = waits().unwrap_or(model.waker.clone());
                let vm = mailbox.detach(model.id, waker.clone());
                assert_eq!(vm.is_some(), matches!(model.state, State::Idle | State::Ready));
                if vm.is_some() {
                    (model.vm, model.state, model.waker) = (vm, State::OwnThread, waker);
                }
            }
            17 if model.vm.is_some() => {
                let mut left = Vec::new();
                let refused = mailbox.close(&mut left);
                model.vm = None;
                model.died(&left, &refused);
            }
            18 => {
                let mut left = Vec::new();
                let killed = mailbox.kill(model.id, &mut left);
                let is_stopped = matches!(model.state, State::Idle | State::Ready | State::Building);
                assert_eq!(killed.is_some(), is_stopped, "a service that runs is not killed");
                if let Some((vm, refused)) = killed {
                    assert_eq!(vm.is_some(), model.state != State::Building);
                    if let Some(vm) = vm {
                        assert!(vm.iter().eq(model.batch.iter()), "the unread messages of the batch");
                    }
                    model.died(&left, &refused);
                }
            }
            19 => {
                assert_eq!(mailbox.free(model.id), model.state == State::Dead);
                if model.state == State::Dead {
                    model.state = State::Free;
                }
            }
            _ => {}
        }
        check_mailbox(&mailbox, &model);
    }
    read
}

fn push(mailbox: &Mailbox<Message, Vm, Flag>, model: &mut Model, message: Message, sender: u32, capacity: usize) {
    let is_full = message.1 && model.bounded() >= capacity;
    let must_wake = model.waker.0.get();
    match mailbox.push(model.id, message, message.1, sender) {
        Err((returned, Refusal::Missing)) => {
            assert!(!model.is_alive() && returned == message, "an alive service is not missing");
        }
        Err((returned, Refusal::Full)) => {
            assert!(is_full && model.is_alive() && returned == message, "a full mailbox");
            if sender != 0 && !model.refused.contains(&sender) {
                model.refused.push(sender);
            }
        }
        Ok(wake) => {
            assert!(!is_full && model.is_alive(), "the capacity counts requests only");
            match (wake, model.state) {
                (Wake::Schedule(affinity), State::Idle) => {
                    assert_eq!(affinity, model.affinity);
                    model.state = State::Ready;
                }
                (Wake::Waker(_), State::OwnThread) => assert!(must_wake, "a thread is woken once"),
                (Wake::None, State::OwnThread) => assert!(!must_wake, "a thread that waits is woken"),
                (Wake::None, State::Building | State::Ready | State::Running) => {}
                (wake, state) => panic!("{wake:?} in the state {state:?}"),
            }
            model.queue.push_back(message);
            model.received += 1;
            model.peak = model.peak.max(model.queue.len() + model.batch.len());
        }
    }
}

fn check_mailbox(mailbox: &Mailbox<Message, Vm, Flag>, model: &Model) {
    let id = model.id;
    assert_eq!(mailbox.is_alive(id), model.is_alive());
    assert_eq!(mailbox.service(), model.is_alive().then_some(id));
    assert_eq!(mailbox.is_building(id), model.state == State::Building);
    assert_eq!(mailbox.is_dead(id), model.state == State::Dead);
    assert!(!mailbox.is_alive(id + 64), "another id");
    assert_eq!(mailbox.waker(id).is_some(), model.state == State::OwnThread);
    if model.is_alive() {
        let statistics = mailbox.statistics();
        assert_eq!(statistics.received, model.received);
        assert_eq!(statistics.queued, model.queue.len() + model.batch.len());
        assert_eq!(statistics.peak, model.peak);
        assert_eq!(mailbox.has_refused(), !model.refused.is_empty());
    }
}

/// Services that begin and end: ids are unique, and no old id finds a new service.
fn registry(input: &mut Input<'_>) -> usize {
    let most = usize::from(input.byte() % 8) + 1;
    let registry = Registry::<()>::new(most, 4);
    // Whether each service is dead; all ids that were freed, the latest last.
    let mut services: BTreeMap<u32, bool> = BTreeMap::new();
    let (mut freed, mut opened): (Vec<u32>, usize) = (Vec::new(), 0);
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() {
            break;
        }
        let (operation, argument) = (input.byte() % 6, input.byte());
        let chosen = services.keys().nth(usize::from(argument) % services.len().max(1)).copied();
        match (operation, chosen) {
            (0 | 1, _) => {
                let wanted = if operation == 0 { 0 } else { u32::from(argument % 32) };
                let id = registry.open(wanted);
                if services.len() >= most {
                    assert_eq!(id, None, "too many services");
                } else if wanted == 0 {
                    let id = id.expect("an id is free");
                    assert!(id != 0 && !freed.contains(&id), "an id is not used again soon");
                } else if services.contains_key(&wanted) {
                    assert_eq!(id, None, "the id is taken");
                }
                let Some(id) = id else { continue };
                opened += 1;
                assert!(wanted == 0 || id == wanted);
                assert!(registry.get(id).is_some_and(|slot| slot.mailbox.is_alive(id)));
                assert!(services.insert(id, false).is_none(), "an id is unique");
            }
            (2 | 3, Some(id)) => {
                let slot = registry.get(id).expect("a slot");
                let killed = slot.mailbox.kill(id, &mut Vec::new()).is_some();
                assert_eq!(killed, !services[&id]);
                services.insert(id, true);
            }
            (4, Some(id)) => {
                assert_eq!(registry.free(id), services[&id], "only a dead service is freed");
                if services[&id] {
                    services.remove(&id);
                    freed.push(id);
                    assert!(!registry.free(id), "a service is freed once");
                }
            }
            _ => {
                if let Some(old) = freed.get(usize::from(argument) % freed.len().max(1)) {
                    let slot = registry.slot_ref(*old).expect("memory of slots stays");
                    assert_eq!(slot.mailbox.is_alive(*old), services.get(old) == Some(&false));
                }
            }
        }
    }
    let alive = registry.all().filter(|slot| slot.mailbox.service().is_some()).count();
    assert_eq!(alive, services.values().filter(|is_dead| !**is_dead).count());
    opened
}

fn timers(input: &mut Input<'_>) -> usize {
    let timers = Timers::default();
    // The id, the service, the session, the deadline.
    let mut model: Vec<(u64, u32, i64, u64)> = Vec::new();
    let (mut planned, mut session, mut fired) = (0, 0, 0);
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() {
            break;
        }
        let (operation, service) = (input.byte() % 8, u32::from(input.byte() % 4));
        match operation {
            0..=2 => {
                let deadline = u64::from(input.byte());
                session += 1;
                let (id, wakes) = timers.add(service, session, deadline);
                assert_eq!(wakes, deadline < planned, "whether the monitor thread wakes earlier");
                assert!(model.iter().all(|one| one.0 != id));
                model.push((id, service, session, deadline));
            }
            3 => {
                let at = usize::from(input.byte()) % model.len().max(1);
                if let Some(one) = model.get(at).copied() {
                    timers.cancel(one.1 + 1, one.0);
                    assert_eq!(timers.count_of(one.1), model.iter().filter(|other| other.1 == one.1).count());
                    timers.cancel(one.1, one.0);
                    model.remove(at);
                }
            }
            4 => {
                timers.remove_all(service);
                model.retain(|one| one.1 != service);
            }
            5 => {
                let until = u64::from(input.byte());
                planned = model.iter().map(|one| one.3).chain([until]).min().unwrap_or(until);
                assert_eq!(timers.plan_wakeup(until), planned);
            }
            _ => {
                let (now, most) = (u64::from(input.byte()), usize::from(input.byte() % 8));
                let mut due: Vec<_> = model.iter().filter(|one| one.3 <= now).copied().collect();
                due.sort_by_key(|one| (one.3, one.2));
                due.truncate(most);
                let mut out = Vec::new();
                timers.expire(now, most, &mut out);
                let expected: Vec<_> = due.iter().map(|one| ExpiredTimer { service: one.1, session: one.2 }).collect();
                assert_eq!(out, expected, "the timers that expire, by time and creation");
                model.retain(|one| due.iter().all(|other| other.0 != one.0));
                fired += due.len();
            }
        }
        assert_eq!(timers.count_of(service), model.iter().filter(|one| one.1 == service).count());
    }
    fired
}

fn unanswered(input: &mut Input<'_>) -> usize {
    let mut requests = Unanswered::default();
    let mut model: BTreeSet<(u32, i64)> = BTreeSet::new();
    let mut answered = 0;
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() {
            break;
        }
        let (operation, request) = (input.byte() % 8, (u32::from(input.byte() % 3), i64::from(input.byte() % 16)));
        match operation {
            // A session belongs to one request at a time.
            0..=3 => {
                if model.insert(request) {
                    requests.add(request.0, request.1);
                }
            }
            7 => {
                let mut all = requests.drain();
                all.sort_unstable();
                assert!(all.iter().eq(model.iter()), "all unanswered requests");
                model.clear();
            }
            _ => {
                let is_known = model.remove(&request);
                assert_eq!(requests.remove(request.0, request.1), is_known);
                answered += usize::from(is_known);
            }
        }
    }
    answered
}

/// Services move between the ready queues; each is in exactly one, and none is lost.
fn ready_queues(input: &mut Input<'_>) -> usize {
    const WORKERS: usize = 3;
    let (ready, deques) = ReadyQueues::new(WORKERS);
    let mut shared: BTreeSet<u32> = BTreeSet::new();
    let mut bound: [VecDeque<u32>; WORKERS] = Default::default();
    let mut handed: [Option<u32>; WORKERS] = [None; WORKERS];
    let (mut id, mut taken) = (0, 0);
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() {
            break;
        }
        let (operation, worker) = (input.byte() % 8, usize::from(input.byte()) % WORKERS);
        id += 1;
        let found = match operation {
            0 | 1 => {
                ready.inject(id);
                shared.insert(id);
                None
            }
            2 => {
                ready.bind(worker, id);
                bound[worker].push_back(id);
                None
            }
            3 => {
                assert_eq!(ready.hand_off(worker, id), handed[worker].replace(id), "the service that was in the slot");
                None
            }
            4 => {
                let one = ready.take_bound(worker);
                assert_eq!(one, bound[worker].pop_front(), "services bound to a worker, in order");
                None
            }
            5 => {
                assert_eq!(ready.take_hand_off(worker), handed[worker].take());
                None
            }
            6 => deques[worker].pop().or_else(|| ready.take_injected(&deques[worker])),
            _ => ready.steal(worker, &deques[worker]),
        };
        if let Some(one) = found {
            assert!(shared.remove(&one), "a service is in one queue");
            taken += 1;
        }
        assert_eq!(ready.has_shared(), !shared.is_empty(), "no service is lost");
        assert_eq!(ready.has_work_for(worker), !shared.is_empty() || !bound[worker].is_empty());
        assert_eq!(ready.is_lane_empty(worker), handed[worker].is_none() && bound[worker].is_empty());
    }
    for deque in &deques {
        while let Some(one) = deque.pop().or_else(|| ready.take_injected(deque)) {
            assert!(shared.remove(&one));
        }
    }
    assert!(shared.is_empty(), "no service is lost");
    taken
}

/// Returns inputs to begin with.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let push = |bounded: u8, sender: u8| [2, bounded | sender << 1];
    let mut full = vec![0, 1, 0, 0, 1, 0];
    for sender in 0..4 {
        full.extend(push(1, sender));
        full.extend(push(0, sender));
    }
    let mut dead = full.clone();
    full.extend([8, 0, 10, 0, 11, 1, 11, 1, 11, 8, 12, 1, 14, 0, 15, 0, 8, 0, 11, 1, 13, 1, 12, 1, 14, 0, 15, 1]);
    dead.extend([18, 0, 2, 0, 19, 0, 7, 0, 0, 0, 2, 0, 1, 2, 8, 0, 17, 0, 19, 0]);
    vec![
        full,
        dead,
        // A slot that is used again after its service has died with messages.
        vec![0, 1, 0, 0, 2, 0, 18, 0, 19, 0, 0, 0, 1, 0, 16, 0, 10, 0],
        // A service with its own thread.
        vec![0, 3, 0, 0, 1, 0, 16, 0, 10, 0, 2, 1, 2, 0, 10, 0, 11, 1, 11, 1, 10, 0, 2, 0, 17, 0],
        vec![4, 2, 0, 0, 0, 0, 1, 9, 0, 0, 2, 0, 4, 0, 5, 0, 1, 1, 0, 0, 3, 1, 4, 1, 0, 0],
        vec![5, 0, 1, 30, 0, 2, 20, 5, 0, 25, 1, 1, 20, 3, 0, 1, 6, 0, 19, 7, 6, 0, 40, 7, 0, 1, 9, 4, 1],
        [&[6][..], &(0..15).flat_map(|at| [0, 0, at]).collect::<Vec<u8>>(), &[5, 0, 3, 5, 0, 12, 5, 0, 12, 7, 0, 0]]
            .concat(),
        vec![7, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 3, 1, 3, 1, 6, 1, 7, 2, 6, 2, 4, 1, 5, 1, 6, 0, 6, 1, 7, 0],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_what_they_are_made_for() {
        let all: Vec<usize> = seeds().iter().map(|seed| scheduler(seed)).collect();
        assert_eq!(all, [7, 0, 0, 2, 5, 2, 2, 4]);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..60 {
            for first in 0..=255 {
                scheduler(&vec![first; length]);
            }
        }
    }
}
