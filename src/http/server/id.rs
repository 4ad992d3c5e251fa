//! Identifiers of connections and requests. An identifier consists of a slot of the server and a stamp that is never
//! reused. So an outdated identifier is detected even if its slot is reused.

/// The number of bits that an identifier has for the slot.
const SLOT_BITS: u32 = 20;

/// The maximum number of connections that a server can have.
pub(crate) const MAX_CONNECTIONS: usize = 1 << SLOT_BITS;

/// Identifies a connection while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId(u64);

/// Identifies a request until the next request on its connection is dispatched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestId(u64);

fn pack(slot: usize, stamp: u64) -> u64 {
    stamp << SLOT_BITS | slot as u64
}

macro_rules! id {
    ($name:ident) => {
        impl $name {
            /// `stamp`: 1 or more, below 2⁴³.
            pub(super) fn new(slot: usize, stamp: u64) -> Self {
                $name(pack(slot, stamp))
            }

            pub(crate) fn slot(self) -> usize {
                (self.0 & (MAX_CONNECTIONS as u64 - 1)) as usize
            }

            pub(super) fn stamp(self) -> u64 {
                self.0 >> SLOT_BITS
            }

            /// Returns the number for Lua code; never 0.
            pub(crate) fn number(self) -> u64 {
                self.0
            }

            /// Returns the identifier with this number; `None` if the number is invalid.
            pub(crate) fn from_number(number: u64) -> Option<Self> {
                (number >> SLOT_BITS != 0).then_some($name(number))
            }
        }
    };
}
id!(ConnectionId);
id!(RequestId);
