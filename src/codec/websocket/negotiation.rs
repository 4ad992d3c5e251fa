//! The negotiation of permessage-deflate (RFC 7692 sections 5 and 7.1): a server chooses one of the client's offers, and
//! a client checks the choice.
//!
//! Invariant: both endpoints derive the same [`Deflate`] from a response. A parameter that an endpoint cannot keep is
//! never accepted.

use super::Role;
use super::extensions::{self, Extension, Malformed};
use std::fmt::Write as _;

const NAME: &[u8] = b"permessage-deflate";
/// The sizes of the window that can be negotiated, as powers of two.
const WINDOW_BITS: std::ops::RangeInclusive<u8> = 8..=MAX_WINDOW_BITS;
/// The size of the window if none is negotiated: 32 KiB.
pub(crate) const MAX_WINDOW_BITS: u8 = 15;

/// The parameters of the messages in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Direction {
    /// Whether a message may refer to earlier messages (context takeover).
    pub(crate) keeps_context: bool,
    /// The size of the window as a power of two, 8 to 15.
    pub(crate) window_bits: u8,
}

/// The parameters that the endpoints have agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deflate {
    /// The messages from the client.
    pub(crate) client: Direction,
    /// The messages from the server.
    pub(crate) server: Direction,
}

impl Deflate {
    /// Returns the parameters of the messages that the endpoint with this role sends.
    pub(crate) fn sent_by(&self, role: Role) -> Direction {
        match role {
            Role::Client => self.client,
            Role::Server => self.server,
        }
    }

    /// Returns the parameters of the messages that the endpoint with this role receives.
    pub(crate) fn received_by(&self, role: Role) -> Direction {
        match role {
            Role::Client => self.server,
            Role::Server => self.client,
        }
    }
}

impl Default for Deflate {
    /// Returns what an endpoint should want: no context takeover, because a connection without incomplete messages then
    /// needs no memory for compression (with it, 43 KiB for decompression, and over 300 KiB for compression).
    fn default() -> Deflate {
        let direction = Direction { keeps_context: false, window_bits: MAX_WINDOW_BITS };
        Deflate { client: direction, server: direction }
    }
}

/// The parameters of one element of `Sec-WebSocket-Extensions`. A value is `None` without the parameter; for
/// `client_max_window_bits`, the inner value is `None` if the parameter has no value.
#[derive(Clone, Copy, Default)]
struct Parameters {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    client_max_window_bits: Option<Option<u8>>,
}

impl Parameters {
    /// Returns the parameters; `None` if one is unknown, repeated or has an invalid value.
    fn of(extension: &Extension) -> Option<Parameters> {
        let mut found = Parameters::default();
        for (name, value) in &extension.parameters {
            let value = value.as_deref();
            let is_repeated = match *name {
                b"server_no_context_takeover" if value.is_none() => {
                    std::mem::replace(&mut found.server_no_context_takeover, true)
                }
                b"client_no_context_takeover" if value.is_none() => {
                    std::mem::replace(&mut found.client_no_context_takeover, true)
                }
                b"server_max_window_bits" => found.server_max_window_bits.replace(window_bits(value?)?).is_some(),
                b"client_max_window_bits" => {
                    let bits = match value {
                        Some(value) => Some(window_bits(value)?),
                        None => None,
                    };
                    found.client_max_window_bits.replace(bits).is_some()
                }
                _ => return None,
            };
            if is_repeated {
                return None;
            }
        }
        Some(found)
    }
}

/// Returns the number of a parameter's value: 8 to 15, without leading zeros.
fn window_bits(value: &[u8]) -> Option<u8> {
    WINDOW_BITS.into_iter().find(|bits| bits.to_string().as_bytes() == value)
}

/// Chooses an offer for a server. `values`: the values of the request's `Sec-WebSocket-Extensions` fields. Returns the
/// parameters of the first offer of permessage-deflate that is valid, and the value of the response's field; `None` if
/// there is none.
///
/// `wanted`: the most that the server wants to use. The response includes each restriction that the offer requires.
///
/// # Errors
/// A value does not match the grammar: the request must be refused (400).
pub(crate) fn respond<'v>(
    values: impl IntoIterator<Item = &'v [u8]>, wanted: &Deflate,
) -> Result<Option<(Deflate, String)>, Malformed> {
    let mut chosen = None;
    for value in values {
        for extension in extensions::parse(value)? {
            if chosen.is_none() && extension.name == NAME {
                chosen = Parameters::of(&extension).map(|offer| accept(&offer, wanted));
            }
        }
    }
    Ok(chosen)
}

fn accept(offer: &Parameters, wanted: &Deflate) -> (Deflate, String) {
    let server_bits = wanted.server.window_bits.min(offer.server_max_window_bits.unwrap_or(MAX_WINDOW_BITS));
    // Without this parameter in the offer, the client would not accept it in the response.
    let client_bits = match offer.client_max_window_bits {
        Some(bits) => wanted.client.window_bits.min(bits.unwrap_or(MAX_WINDOW_BITS)),
        None => MAX_WINDOW_BITS,
    };
    let server_keeps = wanted.server.keeps_context && !offer.server_no_context_takeover;
    let client_keeps = wanted.client.keeps_context && !offer.client_no_context_takeover;
    let deflate = Deflate {
        client: Direction { keeps_context: client_keeps, window_bits: client_bits },
        server: Direction { keeps_context: server_keeps, window_bits: server_bits },
    };
    let mut value = base(&deflate);
    if offer.server_max_window_bits.is_some() || server_bits < MAX_WINDOW_BITS {
        _ = write!(value, "; server_max_window_bits={server_bits}");
    }
    if client_bits < MAX_WINDOW_BITS {
        _ = write!(value, "; client_max_window_bits={client_bits}");
    }
    (deflate, value)
}

/// Returns the extension's name with the parameters about context takeover.
fn base(deflate: &Deflate) -> String {
    let mut value = String::from("permessage-deflate");
    if !deflate.server.keeps_context {
        value += "; server_no_context_takeover";
    }
    if !deflate.client.keeps_context {
        value += "; client_no_context_takeover";
    }
    value
}

/// Returns the value of the field with which a client offers permessage-deflate. `wanted`: the most that it wants to
/// use.
pub(crate) fn offer(wanted: &Deflate) -> String {
    let mut value = base(wanted);
    if wanted.server.window_bits < MAX_WINDOW_BITS {
        _ = write!(value, "; server_max_window_bits={}", wanted.server.window_bits);
    }
    value += "; client_max_window_bits";
    if wanted.client.window_bits < MAX_WINDOW_BITS {
        _ = write!(value, "={}", wanted.client.window_bits);
    }
    value
}

/// Checks a server's response for a client. `values`: the values of the response's `Sec-WebSocket-Extensions` fields.
/// `offered`: the argument of the client's [`offer`]; `None` if it has offered nothing. Returns the parameters;
/// `None` if the server has declined.
///
/// # Errors
/// The response does not match the offer: a text for the error of the handshake.
pub(crate) fn confirm<'v>(
    values: impl IntoIterator<Item = &'v [u8]>, offered: Option<&Deflate>,
) -> Result<Option<Deflate>, &'static str> {
    let mut confirmed = None;
    for value in values {
        let extensions = extensions::parse(value).map_err(|_| "the server's Sec-WebSocket-Extensions is malformed")?;
        for extension in extensions {
            let Some(offered) = offered.filter(|_| extension.name == NAME) else {
                return Err("the server has accepted an extension that was not offered");
            };
            if confirmed.is_some() {
                return Err("the server has accepted permessage-deflate twice");
            }
            let response =
                Parameters::of(&extension).ok_or("the server's parameters of permessage-deflate are invalid")?;
            confirmed = Some(agreed(&response, offered)?);
        }
    }
    Ok(confirmed)
}

fn agreed(response: &Parameters, offered: &Deflate) -> Result<Deflate, &'static str> {
    if !offered.server.keeps_context && !response.server_no_context_takeover {
        return Err("the server has ignored server_no_context_takeover");
    }
    let server_bits = response.server_max_window_bits.unwrap_or(MAX_WINDOW_BITS);
    if server_bits > offered.server.window_bits {
        return Err("the server has ignored server_max_window_bits");
    }
    let client_bits = match response.client_max_window_bits {
        Some(None) => return Err("the server's client_max_window_bits has no value"),
        Some(Some(bits)) if bits > offered.client.window_bits => {
            return Err("the server's client_max_window_bits is larger than offered");
        }
        Some(Some(bits)) => bits,
        None => offered.client.window_bits,
    };
    let client_keeps = offered.client.keeps_context && !response.client_no_context_takeover;
    Ok(Deflate {
        client: Direction { keeps_context: client_keeps, window_bits: client_bits },
        server: Direction { keeps_context: !response.server_no_context_takeover, window_bits: server_bits },
    })
}
