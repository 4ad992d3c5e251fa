//! The scheduler. A service is a Lua VM with a mailbox; worker threads run services.
//!
//! # Design
//!
//! **Mailbox and state** (`mailbox.rs`). One lock per service guards its message queue and its state. Only the thread
//! that holds the lock changes them, so an idle service never has an unread message. A slot without a service is Free.
//! When an id is assigned, the slot is Building until the VM exists. Then the service is Idle, Ready or Running, or
//! OwnThread if it has its own thread. When the service has died, the slot is Dead until root frees it. A push takes
//! the lock once. The service takes whole batches by swapping queues, so that reading a message takes no lock. Messages
//! from one sender to one receiver keep their order. Only requests count against the capacity. Responses, errors,
//! signals and the messages of timers are always accepted (the number of requests limits their number), so they are
//! never lost, delayed or retried. A sender whose message is refused gets the message back. If the sender waits for
//! room, the mailbox records the sender. When half of the mailbox is free again, the sender gets a ROOM message and
//! delivers the messages that it has kept, in order. No thread polls.
//!
//! **Service ids** (`registry.rs`). An id consists of a slot number and a generation. The memory of slots is not freed
//! while the system exists, so a late message finds a valid slot with another id: the send fails instead of reaching a
//! new service.
//!
//! **Ready queues** (`scheduler.rs`, `ready_queues.rs`, `worker_queue.rs`). Each worker has a deque from which other
//! workers steal, and a hand-off slot. If a message of the running slice makes a service ready, the service goes into
//! the slot: it runs next on the same worker, with its message in the cache, and no thread is woken. So a call and its
//! response cost no system call. If another service takes the slot, the previous one moves to the deque, where idle
//! workers find it. Services that other threads make ready go to the injector, a queue that all workers share. After 64
//! hand-offs in a row, a worker takes a service from its deque; every 61st time, it checks the injector first. Each
//! worker also has a queue of the services that are bound to it. Services in a deque are announced to the other
//! workers, except for the service that the deque's worker runs next. If another service runs first, the deque is
//! announced before that slice begins.
//!
//! **Sleep and wakeup** (`sleep.rs`). A producer pushes and then reads the number of sleeping workers. A worker
//! announces that it sleeps and then checks the queues once more. Each of these threads executes a fence between its
//! two actions. A push wakes one worker, or none if a woken worker is still searching; the last searching worker that
//! finds work wakes the next one. The models in `tests/loom` check this protocol with whole workers, and they check the
//! mailbox.
//!
//! **A slice** (`modules/ltask/dispatch.rs`) is one entry into the VM. It handles messages for up to 2 ms, but at most
//! 512 messages. The dispatcher unpacks each message on the running coroutine, which is protected, moves the values to
//! the task's coroutine and resumes the task. When a task ends, its results are packed from its stack. Rarely used
//! functions are Lua code (`lualib/ltask/`), loaded when first used, so a service that only responds takes about 30 KB.
//!
//! **Time** (`monitor_thread.rs`, `timers.rs`, `watchdog.rs`). The monitor thread sleeps until the first timer expires,
//! and then posts the timer's message. While workers are awake, the monitor thread samples their progress every 2 ms.
//! If a slice takes long, the service in its worker's hand-off slot is released to the other workers, and a spare
//! worker starts if there is work and no free worker. So a service that blocks or loops does not delay other services,
//! even with one worker. The watchdog reports a slice that takes longer than `config.watchdog` (5 s by default). When
//! all workers have slept for about 200 ms, sampling stops, so an idle system does nothing. `sleep(0)` posts a message
//! to the service itself. The timers of a service are in a linked list, and are removed with the service.
//!
//! **Threads of services** (`own_thread.rs`, `event.rs`): exclusive services (G1) and services with an event descriptor
//! (G2) have their own threads, since they block in a selector. (G1 and G2 are the generations of ltask's API: G1 is
//! the API of early 2024, G2 is the current API.) The sender of the first message of a burst writes to the descriptor;
//! the senders of the following messages find that the wakeup is already claimed. The wait function drains the
//! descriptor. So a burst costs its senders one system call.
//!
//! **I/O** (`watcher.rs`, `io_thread.rs`, `service_io.rs`). A service that owns no loop has a selector, which an I/O
//! thread watches: one epoll descriptor contains the descriptors of all selectors. If a selector has events, the I/O
//! thread posts an IO message, and the service runs a round of its loop at the end of its slice: it takes the events,
//! wakes tasks and sends. The service runs rounds until no task becomes ready; only then does the I/O thread watch the
//! selector again. So a busy service is as fast as an owner of a loop, and bytes never cross threads.
//!
//! **Death** (`lifecycle.rs`). A service dies in fixed steps: the mailbox closes; unread and unanswered requests are
//! recorded; the timers are removed; the thread that owns the VM closes it; root gets a signal, answers the recorded
//! requests with errors and frees the id. So every request is answered, even if the service's code does not answer it.
//!
//! **The end of the system** (`run.rs`, `monitor_thread.rs`). When root's main function returns, every thread ends
//! after its slice, and blocked threads are woken. Slices that are still running one second later are interrupted with
//! an error (`lua::interrupt`); threads that are still running after six seconds are abandoned. Then every VM is
//! closed, root's last.
//!
//! **Memory** (`src/memory`). Each VM has an arena without block headers. The arena counts and limits the VM's memory,
//! and is freed as a whole.
//!
//! # Files, from the lowest layer up
//!
//! | files | topic |
//! |---|---|
//! | `sync`, `config`, `message`, `thread_clock` | basic definitions |
//! | `mailbox`, `event` | where messages wait, and how a blocked thread is woken |
//! | `ready_queues`, `sleep`, `worker_queue`, `scheduler` | where ready services wait, and for which worker |
//! | `statistics`, `registry`, `log`, `unanswered` | statistics, ids, log lines and unanswered requests of services |
//! | `timers`, `monitor`, `progress` | what other threads share with the monitor thread |
//! | `run_limits` | the limits of the time that a service runs without waiting |
//! | `watcher` | what services share with the I/O threads |
//! | `system` | what all threads share; posting messages |
//! | `service_io`, `library_state`, `service`, `service_vm` | the loop of a service; a service, its VM, a slice |
//! | `lifecycle`, `prestart` | how services start and end |
//! | `threads`, `own_thread`, `worker`, `watchdog`, `monitor_thread`, `io_thread`, `run` | the threads |
//! | `crash`, `c_functions` | the crash log; functions that C code calls |
//! | `fuzz` | the target of a fuzzer |
//!
//! `System` is generic over the VM of a service, which it only stores. So `service` imports `system`, and `system` does
//! not import `service`. The modules that Lua code loads are in `modules/ltask/`.

pub(crate) mod c_functions;
pub(crate) mod config;
pub(crate) mod crash;
pub(crate) mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(crate) mod io_thread;
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
mod run_limits;
pub(crate) mod scheduler;
pub(crate) mod service;
pub(crate) mod service_io;
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
mod watcher;
pub(crate) mod worker;
mod worker_queue;
