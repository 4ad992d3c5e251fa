//! The scheduler. A service is a Lua VM with a mailbox; worker threads run services.
//!
//! # Design
//!
//! **Mailbox and state** (`mailbox.rs`). One lock per service guards its message queue and its state, so that "a
//! message has arrived" and "the service is in a ready queue" always agree: only the thread that holds the lock changes
//! the state. A slot without a service is Free; it is Building from the assignment of an id until the VM exists. Then
//! the service is Idle, Ready or Running, or OwnThread if it has its own thread. It is Dead until root has removed it.
//! A push takes the lock once. The service takes whole batches by swapping queues, so that reading a message takes no
//! lock. Messages of one sender to one receiver keep their order. The capacity counts requests only. Responses, errors,
//! signals and the messages of timers always have room (the requests that they belong to bound their number), so they
//! are never lost, delayed or retried. A sender whose message is refused gets the message back. If it wants to wait,
//! the mailbox records it; when half of the mailbox is free again, the sender gets a ROOM message and delivers what it
//! has kept, in order. Nothing polls.
//!
//! **Service ids** (`registry.rs`). An id is a slot and a generation. Slots are not freed while the system exists, so a
//! late message finds valid memory and another id there: it fails instead of reaching a new service.
//!
//! **Ready queues** (`scheduler.rs`, `ready_queues.rs`, `worker_queue.rs`). Each worker has a deque from which other
//! workers steal, and a hand-off slot. A service that becomes ready by a message of the running slice goes into the
//! slot: it runs next on the same worker, with its message in the cache, and no thread is woken. So a call and its
//! response cost no system call. A service that another one displaces from the slot moves to the deque, where idle
//! workers find it. After 64 hand-offs in a row the deque has its turn; the injector has its turn every 61 slices.
//! Bound services have a queue per worker. A service may be in a deque without an announcement to other workers only
//! while it is the next one that its worker runs. If another service comes first, the rest of the deque is announced
//! before that slice begins.
//!
//! **Sleep and wakeup** (`sleep.rs`). A producer pushes and then reads how many workers sleep. A worker announces its
//! sleep and then checks the queues once more. Each of them executes a fence between its two actions. A push wakes one
//! worker, or none while a woken worker still searches; the last searching worker that finds work wakes the next one.
//! The models in `tests/loom` check this with whole workers, and the mailbox.
//!
//! **A slice** (`modules/ltask/dispatch.rs`) is one entry into the VM for a batch: up to 512 messages or 2 ms. The
//! dispatcher unpacks each message on the running coroutine, which is protected, moves the values to the task's
//! coroutine and resumes that. When a task ends, its results are packed from its stack. Rarely used functions are Lua
//! code (`lualib/ltask/`), loaded at first use: a service that only responds takes about 30 KB.
//!
//! **Time** (`monitor_thread.rs`, `timers.rs`, `watchdog.rs`). One thread sleeps until the first timer expires and
//! posts its message. While workers are awake, it samples their progress every 2 ms. If a slice takes long, the service
//! in its worker's hand-off slot is released to the other workers, and a spare worker starts if there is work and no
//! free worker. So a service that blocks or loops delays no other service, even with one worker. After seconds the
//! watchdog reports it. When all workers have slept for a while, sampling stops: an idle system does nothing.
//! `sleep(0)` is a message to the service itself. The timers of a service are in a linked list, and are removed with
//! the service.
//!
//! **Threads of services** (`own_thread.rs`, `event.rs`): exclusive services (G1) and services with an event descriptor
//! (G2) have their own threads, since they block in a selector. The first message of a burst writes to the descriptor;
//! the following ones find it claimed. The wait function drains the descriptor. So a burst costs one system call.
//!
//! **Death** (`lifecycle.rs`) has a fixed order of steps: the mailbox closes; unread messages and unanswered requests
//! are recorded; the timers are removed; the thread that ran the VM closes it; root gets a signal, answers the recorded
//! requests and frees the id. So every request is answered, regardless of the service's code.
//!
//! **The end of the system** (`run.rs`, `monitor_thread.rs`). Root's main function returns. Threads end after their
//! slice, and blocked threads are woken. One second after the beginning of the end, slices that still run get an error
//! (`lua::interrupt`); six seconds after the beginning, threads that cannot be interrupted are abandoned. Then every VM
//! is closed, root's last.
//!
//! **Memory** (`src/memory`). Each VM has an arena without block headers. It counts and limits the VM's memory, and is
//! freed as a whole.
//!
//! # Files, from the lowest layer up
//!
//! | files | topic |
//! |---|---|
//! | `sync`, `config`, `message`, `thread_clock` | basic definitions |
//! | `mailbox`, `event` | where messages wait, and how a blocked thread is woken |
//! | `ready_queues`, `sleep`, `worker_queue`, `scheduler` | where ready services wait, and for which worker |
//! | `statistics`, `registry`, `log`, `unanswered` | statistics and ids of services, their log lines, their open requests |
//! | `timers`, `monitor`, `progress` | what other threads share with the monitor thread |
//! | `system` | what all threads share; posting |
//! | `library_state`, `service`, `service_vm` | a service, its VM, a slice |
//! | `lifecycle`, `prestart` | how services start and end |
//! | `threads`, `own_thread`, `worker`, `watchdog`, `monitor_thread`, `run` | the threads |
//! | `crash`, `c_functions` | the crash log; functions that C code calls |
//!
//! `System` is generic over the VM of a service, which it only stores. So `service` imports `system`, and `system` does
//! not import `service`. The modules that Lua code loads are in `modules/ltask/`.

pub(crate) mod c_functions;
pub(crate) mod config;
pub(crate) mod crash;
pub(crate) mod event;
pub(crate) mod library_state;
pub(crate) mod lifecycle;
pub(crate) mod log;
pub(crate) mod mailbox;
pub(crate) mod message;
mod monitor;
mod monitor_thread;
mod own_thread;
pub(crate) mod prestart;
mod progress;
mod ready_queues;
pub(crate) mod registry;
pub(crate) mod run;
pub(crate) mod scheduler;
pub(crate) mod service;
pub(crate) mod service_vm;
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
mod worker_queue;
