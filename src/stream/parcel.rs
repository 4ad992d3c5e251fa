//! Connections on their way from one VM to another: `net.transfer` stands on this.
//!
//! A stream that is sent off leaves its socket and its bytes here, under a number that travels in a message. Whoever takes
//! the number first has the connection: the receiver, or the sender again when the message failed. Invariant: each parcel
//! is taken once, so no descriptor has two owners; one that nobody took is closed with the stream that sent it off.

use crate::socket::Parts;
use rustc_hash::FxHashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// What a stream is made of, without what belongs to a VM. Dropped, it closes the socket.
pub(super) struct Parcel {
    pub(super) socket: Parts,
    pub(super) data: Data,
}

/// What a stream has read, and is to send.
pub(super) struct Data {
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) ended: bool,
}

#[derive(Default)]
struct Parcels {
    last: u64,
    waiting: FxHashMap<u64, Parcel>,
}

static PARCELS: LazyLock<Mutex<Parcels>> = LazyLock::new(Mutex::default);

fn parcels() -> MutexGuard<'static, Parcels> {
    PARCELS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves a parcel here, under the number that it was taken from, 0 for a new one. → its number
pub(super) fn leave(parcel: Parcel, number: u64) -> u64 {
    let mut all = parcels();
    let number = match number {
        0 => {
            all.last += 1;
            all.last
        }
        known => known,
    };
    all.waiting.insert(number, parcel);
    number
}

/// Takes a parcel, if it is still here.
pub(super) fn take(number: u64) -> Option<Parcel> {
    parcels().waiting.remove(&number)
}
