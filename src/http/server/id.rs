//! Names of connections and requests. A name is a slot of the server and a stamp, which is never given twice: so a late
//! use of one is noticed, whoever has the slot by then.

/// How many bits of a name are its slot.
const SLOT_BITS: u32 = 20;

/// The most connections that a server can have.
pub(crate) const MOST_CONNECTIONS: usize = 1 << SLOT_BITS;

/// A connection, for as long as it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId(u64);

/// A request, until the next one of its connection is dispatched.
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
                (self.0 & (MOST_CONNECTIONS as u64 - 1)) as usize
            }

            pub(super) fn stamp(self) -> u64 {
                self.0 >> SLOT_BITS
            }

            /// The number by which others know it; never 0.
            pub(crate) fn number(self) -> u64 {
                self.0
            }

            /// The name with this number; `None` for a number that no name has.
            pub(crate) fn from_number(number: u64) -> Option<Self> {
                (number >> SLOT_BITS != 0).then_some($name(number))
            }
        }
    };
}
id!(ConnectionId);
id!(RequestId);
