//! The scheduler: services, each a Lua VM with a mailbox, run by worker threads.
//!
//! # Design
//!
//! **Mailbox and state** (`mailbox.rs`). One small lock per service guards its queue and its state, so that
//! "a message is there" and "it is queued to run" cannot drift apart: only who holds the lock changes the
//! state. Free → Building (a number is given out) → Idle ⇄ Ready → Running → Idle or Ready; Own for a
//! service with a thread of its own; Dead until root has taken note, then Free. A push is one lock; the
//! service takes whole batches by swapping queues, so that reading is free. Order per pair follows.
//! The bound counts requests. Answers, errors, signals and timers' messages have room always (they are
//! bounded by the requests they belong to) and so are never lost, kept back or retried. A refused sender
//! gets its message back, and if it wants to wait it is noted: when half of the mailbox is free again it
//! gets a message (ROOM) and delivers what it kept, in order. Nothing polls.
//!
//! **Numbers** (`slots.rs`). Place and generation; places are never freed while the system stands, so a
//! late message finds valid memory and another number: it reports death and reaches nobody.
//!
//! **Ready queues** (`ready.rs`, `queue.rs`). Each worker has a deque that others steal from, and a hand-off
//! slot: a service that becomes ready by a message of the slice that runs is next on the same worker, its
//! message in the cache, with no thread woken; so a call and its answer cost no system call. A service
//! that is pushed out of the slot goes to the deque, where idle workers find it. 64 hand-offs in a row,
//! then the deque has its turn; the injector every 61 turns. Bound services have a queue per worker.
//! A service may wait in a deque without an announcement only as long as it is what its worker runs next:
//! when another one comes first, the rest of the deque is announced before that slice begins.
//!
//! **Sleep and wake** (`sleep.rs`). A producer pushes and then looks at who sleeps; a worker announces its
//! sleep and then looks at the queues once more; a fence on both sides. One wakes per push, none while
//! a woken one still searches; who finds work as the last searcher wakes the next. `tests/loom` proves it,
//! with whole workers, and the mailbox.
//!
//! **A slice** (`modules/ltask/dispatch.rs`) is one entry into the VM for a batch: up to 512 messages or 2 ms. The
//! dispatcher unpacks on the running coroutine, which is protected, moves the values to the task's
//! coroutine and resumes it; a task's results are packed from its stack when it ends. What is rare is
//! Lua (`lualib/ltask/`), loaded at first use: a service that only answers has some 30 KB.
//!
//! **Time** (`timekeeper.rs`, `timers.rs`). One thread sleeps until the first timer is due and posts what is.
//! While workers are awake it looks at them every 2 ms: a slice that takes long loses what lies in its
//! hand-off slot to the others, and gets a stand-in worker if there is work and nobody for it; so one that
//! blocks or loops holds up nobody, with one worker as well. After seconds the watchdog reports it. When
//! all have slept for a while the looks end: an idle system does nothing. `sleep(0)` is a message to
//! oneself. A service's timers are chained, and go with it.
//!
//! **Threads of their own** (`run.rs`, `event.rs`): exclusive services (G1), and those with an event
//! descriptor (G2), which block in a selector. The first message of a burst writes to the descriptor, the
//! rest see that it did; the wait function takes that. One system call per burst.
//!
//! **Death** (`lifecycle.rs`) is one order of steps: the mailbox closes, what was unread or read and not answered
//! is noted, timers go, the VM is closed where it ran, root gets its signal, answers what was noted and
//! frees the number. So every request is answered, whatever the service did or did not do.
//!
//! **The end** (`run.rs`, `timekeeper.rs`). Root's main function returns; threads leave after their slice,
//! bells ring for those that block, slices that go on get an error after a second (`watch.rs`), and what
//! nothing can interrupt is left behind after six more. Then every VM is closed, root's last.
//!
//! **Memory** (`src/memory`). Each VM has an arena without block headers, which counts, limits, and goes as
//! a whole.
//!
//! # Files
//!
//! - `message`, `mailbox`, `slots`, `unanswered`: messages and where they wait
//! - `service`, `body`, `library`, `lifecycle`, `preinit`, `memory`: a service, its birth and death
//! - `system`, `config`, `log`, `run`: what all share; `ready`, `queue`, `sleep`, `worker`: who runs what
//! - `foreign`, `thread_clock`: what C code calls, and a clock of the system
//! - `timekeeper`, `timers`, `watch`, `crash`, `event`: time, and what looks after the rest
//!
//! The modules that Lua sees are in `modules/ltask/`. What is unsafe is in `message`, `foreign`, `crash` and
//! `thread_clock`; all else is safe code.

pub(crate) mod body;
pub(crate) mod config;
pub(crate) mod crash;
pub(crate) mod event;
pub(crate) mod foreign;
pub(crate) mod library;
pub(crate) mod lifecycle;
pub(crate) mod log;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod preinit;
pub(crate) mod queue;
pub(crate) mod ready;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod sleep;
pub(crate) mod slots;
pub(crate) mod statistics;
mod sync;
pub(crate) mod system;
pub(crate) mod thread_clock;
pub(crate) mod timekeeper;
pub(crate) mod timers;
pub(crate) mod unanswered;
pub(crate) mod watch;
pub(crate) mod worker;
