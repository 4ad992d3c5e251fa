//! The frames of the WebSocket load (RFC 6455 section 5.2), and its handshake. Used by the client and by the baseline.

/// The handshake of every client. The key is that of RFC 6455 section 1.3.
#[allow(dead_code, reason = "the baseline does not send it")]
pub(crate) const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// The end of a head.
pub(crate) const HEAD_END: &[u8] = b"\r\n\r\n";

/// The masking key of the client.
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Appends the head of a final binary frame.
pub(crate) fn push_head(out: &mut Vec<u8>, length: usize, is_masked: bool) {
    let mask = if is_masked { 0x80 } else { 0 };
    out.push(0x82);
    match length {
        0..=125 => out.push(mask | length as u8),
        126..=0xffff => {
            out.push(mask | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(mask | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Masks or unmasks `bytes`.
pub(crate) fn mask(bytes: &mut [u8], key: [u8; 4]) {
    for (byte, key) in bytes.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// Returns a client's frame with a payload of `size` bytes, and the frame with which a server echoes it.
#[allow(dead_code, reason = "the baseline does not call it")]
pub(crate) fn message_and_echo(size: usize) -> (Vec<u8>, Vec<u8>) {
    let payload: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
    let (mut message, mut echo) = (Vec::new(), Vec::new());
    push_head(&mut message, size, true);
    message.extend_from_slice(&KEY);
    let start = message.len();
    message.extend_from_slice(&payload);
    mask(&mut message[start..], KEY);
    push_head(&mut echo, size, false);
    echo.extend_from_slice(&payload);
    (message, echo)
}
