//! The numbers of packed C functions.

use crate::lua::Function;
use std::sync::{Mutex, PoisonError};

/// The C functions that were packed. A message contains positions in this list, so unpacking, even of malformed bytes,
/// returns only functions from this list.
static FUNCTIONS_SENT: Mutex<Vec<Function>> = Mutex::new(Vec::new());

/// Returns the position of a function in the list of packed functions, starting at 1.
pub(super) fn number_of(function: Function) -> u64 {
    let mut sent = FUNCTIONS_SENT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |sent: &Function| sent.address() == function.address();
    let place = sent.iter().position(known).unwrap_or_else(|| {
        sent.push(function);
        sent.len() - 1
    });
    place as u64 + 1
}

/// Returns the function at position `number` of the list.
pub(super) fn function_at(number: u64) -> Option<Function> {
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    let sent = FUNCTIONS_SENT.lock().unwrap_or_else(PoisonError::into_inner);
    sent.get(place).copied()
}
