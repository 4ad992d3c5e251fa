//! Signals to the supervisor, as events. They are blocked in every thread but for the one that waits for
//! them, so that none can interrupt or end the supervisor in between.

use super::Event;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::mpsc::Sender;

/// What the supervisor reacts to.
const CAUGHT: [i32; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

/// Blocks the signals and starts the thread that waits for them. Called before there are other threads.
pub(super) fn start(events: Sender<Event>) -> io::Result<()> {
    let set = blocked();
    // SAFETY: the set is initialized.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    let wait = move || {
        while let Some((number, from_terminal)) = next(&set) {
            if events.send(Event::Signal(number, from_terminal)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(wait)?;
    Ok(())
}

fn blocked() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initializes the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in CAUGHT {
            libc::sigaddset(set.as_mut_ptr(), number);
        }
        set.assume_init()
    }
}

/// Lets the signals through again. For a new process between fork and exec: async-signal-safe.
pub(super) fn unblock() {
    let set = blocked();
    // SAFETY: the set is initialized.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) };
}

/// The next signal, and whether the terminal sent it, that is to each process of the group.
#[cfg(target_os = "linux")]
fn next(set: &libc::sigset_t) -> Option<(i32, bool)> {
    let mut information = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: both places are valid for the call.
        let number = unsafe { libc::sigwaitinfo(set, information.as_mut_ptr()) };
        if number > 0 {
            // SAFETY: filled in by the call. What a process sends has a code that is not positive.
            return Some((number, unsafe { information.assume_init().si_code } > 0));
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// As above, where the system does not tell: Ctrl-C is the common case at a terminal.
#[cfg(not(target_os = "linux"))]
fn next(set: &libc::sigset_t) -> Option<(i32, bool)> {
    let mut number = 0;
    // SAFETY: both places are valid for the call.
    let failed = unsafe { libc::sigwait(set, &mut number) };
    let from_terminal = number == libc::SIGINT && std::io::IsTerminal::is_terminal(&io::stdin());
    (failed == 0).then_some((number, from_terminal))
}

/// Whether the process has a terminal that controls it. One that had and has none any more was hung up.
pub(super) fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
