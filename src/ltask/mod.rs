//! The scheduler: services, each a Lua VM with a mailbox, run by worker threads.
//!
//! # Design
//!
//! **Mailbox and state** (`mailbox.rs`). One small lock per service guards its queue and its state, so that
//! "a message is there" and "it is queued to run" cannot drift apart: only the thread that holds the lock changes the
//! state. Free → Building (a number is given out) → Idle ⇄ Ready → Running → Idle or Ready; Own for a
//! service with a thread of its own; Dead until root has taken note, then Free. A push is one lock; the
//! service takes whole batches by swapping queues, so that reading is free. Order per pair follows.
//! The bound counts requests. Answers, errors, signals and timers' messages have room always (they are
//! bounded by the requests they belong to) and so are never lost, kept back or retried. A refused sender
//! gets its message back, and if it wants to wait it is noted: when half of the mailbox is free again it
//! gets a message (ROOM) and delivers what it kept, in order. Nothing polls.
//!
//! **Numbers** (`registry.rs`). Place and generation; places are never freed while the system exists, so a
//! late message finds valid memory and another number: it fails instead of reaching a new service.
//!
//! **Ready queues** (`scheduler.rs`, `ready.rs`, `queue.rs`). Each worker has a deque that others steal from, and a hand-off
//! slot: a service that becomes ready by a message of the slice that runs is next on the same worker, its
//! message in the cache, with no thread woken; so a call and its answer cost no system call. A service
//! that is pushed out of the slot goes to the deque, where idle workers find it. 64 hand-offs in a row,
//! then the deque has its turn; the injector every 61 turns. Bound services have a queue per worker.
//! A service may wait in a deque without an announcement only as long as it is what its worker runs next:
//! when another one comes first, the rest of the deque is announced before that slice begins.
//!
//! **Sleep and wake** (`sleep.rs`). A producer pushes and then reads how many workers sleep; a worker announces its
//! sleep and then checks the queues once more; a fence on both sides. One wakes per push, none while
//! a woken one still searches; the last searcher that finds work wakes the next. `tests/loom` proves it,
//! with whole workers, and the mailbox.
//!
//! **A slice** (`modules/ltask/dispatch.rs`) is one entry into the VM for a batch: up to 512 messages or 2 ms. The
//! dispatcher unpacks on the running coroutine, which is protected, moves the values to the task's
//! coroutine and resumes it; a task's results are packed from its stack when it ends. What is rare is
//! Lua (`lualib/ltask/`), loaded at first use: a service that only answers has some 30 KB.
//!
//! **Time** (`monitor_thread.rs`, `timers.rs`, `watchdog.rs`). One thread sleeps until the first timer is due and posts its
//! message. While workers are awake it takes a sample of their progress every 2 ms: a slice that takes long loses what lies
//! in its hand-off slot to the others, and gets a stand-in worker if there is work and no worker for it; so one that
//! blocks or loops holds up no other service, with one worker as well. After seconds the watchdog reports it. When
//! all have slept for a while the samples end: an idle system does nothing. `sleep(0)` is a message to
//! oneself. A service's timers are chained, and are removed with it.
//!
//! **Threads of their own** (`own_thread.rs`, `event.rs`): exclusive services (G1), and those with an event
//! descriptor (G2), which block in a selector. The first message of a burst writes to the descriptor, the
//! rest find that it did; the wait function takes that. One system call per burst.
//!
//! **Death** (`lifecycle.rs`) is one order of steps: the mailbox closes, what was unread or read and not answered
//! is noted, timers go, the VM is closed where it ran, root gets its signal, answers what was noted and
//! frees the number. So every request is answered, whatever the service did or did not do.
//!
//! **The end** (`run.rs`, `monitor_thread.rs`). Root's main function returns; threads leave after their slice,
//! those that block are woken, slices that go on get an error after a second (`lua::interrupt`), and what
//! nothing can interrupt is left behind after six more. Then every VM is closed, root's last.
//!
//! **Memory** (`src/memory`). Each VM has an arena without block headers, which counts, limits, and goes as
//! a whole.
//!
//! # Files, from the bottom up
//!
//! | files | topic |
//! |---|---|
//! | `sync`, `config`, `message`, `thread_clock` | what all use |
//! | `mailbox`, `event` | where messages wait, and what wakes a thread that blocks |
//! | `ready`, `sleep`, `queue`, `scheduler` | where ready services wait, and for which worker |
//! | `statistics`, `registry`, `log`, `unanswered` | what is known of services; their numbers; what they log |
//! | `timers`, `monitor`, `progress` | what threads share with the monitor thread |
//! | `system` | what all threads share; posting |
//! | `library`, `service`, `body` | a service, its VM, a slice |
//! | `lifecycle`, `prestart` | birth and death of services |
//! | `threads`, `own_thread`, `worker`, `watchdog`, `monitor_thread`, `run` | the threads |
//! | `crash`, `foreign` | the crash log; what C code calls |
//!
//! `System` is generic over the body of a service, which only lies in it: so `service` imports `system`, and not the other
//! way round. The modules that Lua sees are in `modules/ltask/`.

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
mod monitor;
mod monitor_thread;
mod own_thread;
pub(crate) mod prestart;
mod progress;
mod queue;
mod ready;
pub(crate) mod registry;
pub(crate) mod run;
pub(crate) mod scheduler;
pub(crate) mod service;
mod sleep;
pub(crate) mod statistics;
mod sync;
pub(crate) mod system;
mod thread_clock;
mod threads;
mod timers;
mod unanswered;
mod watchdog;
pub(crate) mod worker;
