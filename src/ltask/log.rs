//! The log queue: what services say, until the logger takes it.
//!
//! Entries are payloads that the service library packed. Without a logger (nobody has ever taken an
//! entry), text goes to standard error at once, so that an error in a bare system is seen.

use super::message::{Payload, ServiceId};
use super::service::Card;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// One entry.
pub(crate) struct Entry {
    /// Centiseconds since the epoch.
    pub(crate) time: u64,
    /// Who says it; its card outlives it here.
    pub(crate) service: ServiceId,
    pub(crate) card: Option<Arc<Card>>,
    pub(crate) payload: Payload,
}

/// Centiseconds since the epoch.
pub(crate) fn centiseconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| (time.as_millis() / 10) as u64)
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct Log {
    entries: Mutex<VecDeque<Entry>>,
    /// Whether somebody takes entries.
    read: AtomicBool,
    /// The service to be told when the queue is no longer empty; 0 is nobody.
    reader: AtomicU32,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry. Returns the reader to be told, if it does not know yet that there are some.
    pub(crate) fn push(
        &self,
        service: ServiceId,
        card: Option<Arc<Card>>,
        payload: Payload,
    ) -> Option<ServiceId> {
        let mut entries = self.lock();
        entries.push_back(Entry {
            time: centiseconds(),
            service,
            card,
            payload,
        });
        let reader = self.reader.load(Ordering::Relaxed);
        (entries.len() == 1 && reader != 0).then_some(reader)
    }

    /// The oldest entry.
    pub(crate) fn pop(&self) -> Option<Entry> {
        self.read.store(true, Ordering::Relaxed);
        self.lock().pop_front()
    }

    /// Whether somebody takes entries.
    pub(crate) fn is_read(&self) -> bool {
        self.read.load(Ordering::Relaxed) || self.reader.load(Ordering::Relaxed) != 0
    }

    /// Makes `service` the one that is told.
    pub(crate) fn set_reader(&self, service: ServiceId) {
        self.reader.store(service, Ordering::Relaxed);
    }
}
