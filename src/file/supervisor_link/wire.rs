//! The protocol between a program and the `lio --watch` process that runs it: frames on a pair of unix stream sockets.
//! A frame can carry a descriptor (unix(7), SCM_RIGHTS).
//!
//! A frame consists of its kind, the length of its text (4 bytes, little endian), and the text. The descriptor is sent
//! with the frame's first byte, so that the receiver assigns it to the right frame.

use rustix::io::{FdFlags, fcntl_setfd, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Sent by the program before it loads a file. Text: a [`Fingerprint`](super::Fingerprint), then the absolute path.
pub(crate) const FILE_LOAD: u8 = b'F';
/// Sent by the program to request a socket. Text: the socket's key. The response is [`REQUESTED_SOCKET`] or [`NO`].
pub(crate) const SOCKET_REQUEST: u8 = b'W';
/// Sent by the program when it has created a socket, which the frame carries. Text: the socket's key.
pub(crate) const NEW_SOCKET: u8 = b'M';
/// Sent by the program when it has closed a socket that it requested or created. Text: the socket's key.
pub(crate) const CLOSED_SOCKET: u8 = b'C';
/// Sent by the program when the address of a key is in use. Text: the key. The response is [`YES`] if the address may
/// become free, otherwise [`NO`].
pub(crate) const ADDRESS_IN_USE: u8 = b'T';
/// Sent by the program to ask whether another process has replaced it. The response is [`YES`] or [`NO`].
pub(crate) const IS_REPLACED: u8 = b'R';
/// Response to the program: yes.
pub(crate) const YES: u8 = b'y';
/// Response to the program: no.
pub(crate) const NO: u8 = b'n';
/// Response to the program: the requested socket, which the frame carries.
pub(crate) const REQUESTED_SOCKET: u8 = b'h';

const HEAD: usize = 5;
/// The maximum length of a text in bytes; paths and keys are shorter.
const MAX_TEXT: usize = 64 * 1024;

/// The size of the control data for one descriptor.
const ROOM: usize = rustix::cmsg_space!(ScmRights(1));

/// A received frame.
pub(crate) struct Frame {
    /// The kind: one of the constants.
    pub(crate) kind: u8,
    pub(crate) text: Vec<u8>,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// Sends a frame. Blocks while the other side's buffer is full.
///
/// # Errors
/// Returns an error from sendmsg(2), for instance if the other side has closed.
pub(crate) fn send(
    mut socket: &UnixStream, kind: u8, text: &[u8], descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    if text.len() > MAX_TEXT {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut frame = Vec::with_capacity(HEAD + text.len());
    frame.push(kind);
    frame.extend_from_slice(&(text.len() as u32).to_le_bytes());
    frame.extend_from_slice(text);
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut passed = SendAncillaryBuffer::new(&mut room);
    if descriptor.is_some() {
        passed.push(SendAncillaryMessage::ScmRights(descriptor.as_slice()));
    }
    let pieces = [IoSlice::new(&frame)];
    let sent = retry_on_intr(|| sendmsg(socket, &pieces, &mut passed, SendFlags::NOSIGNAL))?;
    socket.write_all(&frame[sent..])
}

/// Waits for a frame; `None` if the other side has closed.
///
/// # Errors
/// Returns an error from recvmsg(2), or an error if the frame is invalid or truncated.
pub(crate) fn receive(mut socket: &UnixStream) -> io::Result<Option<Frame>> {
    let mut head = [0; HEAD];
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut passed = RecvAncillaryBuffer::new(&mut room);
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    let flags = RecvFlags::empty();
    let pieces = &mut [IoSliceMut::new(&mut head)];
    let count = retry_on_intr(|| recvmsg(socket, pieces, &mut passed, flags))?.bytes;
    if count == 0 {
        return Ok(None);
    }
    let descriptor = passed.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if let Some(descriptor) = &descriptor {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    socket.read_exact(&mut head[count..])?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > MAX_TEXT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    Ok(Some(Frame { kind: head[0], text, descriptor }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::fcntl_getfd;
    use std::os::fd::AsFd;

    #[test]
    fn frames_arrive_in_order_each_with_its_descriptor() {
        let (near, far) = UnixStream::pair().unwrap();
        let (passed, mut kept) = UnixStream::pair().unwrap();
        send(&near, FILE_LOAD, b"a path", None).unwrap();
        send(&near, NEW_SOCKET, b"", Some(passed.as_fd())).unwrap();
        drop((near, passed));
        let first = receive(&far).unwrap().expect("a frame");
        assert_eq!((first.kind, &first.text[..]), (FILE_LOAD, &b"a path"[..]));
        assert!(first.descriptor.is_none());
        let second = receive(&far).unwrap().expect("a frame");
        assert_eq!((second.kind, second.text.len()), (NEW_SOCKET, 0));
        let descriptor = second.descriptor.expect("a descriptor");
        assert_eq!(fcntl_getfd(&descriptor).unwrap(), FdFlags::CLOEXEC);
        UnixStream::from(descriptor).write_all(b"x").unwrap();
        let mut byte = [0];
        kept.read_exact(&mut byte).unwrap();
        assert!(receive(&far).unwrap().is_none());
    }

    #[test]
    fn a_text_that_is_too_long_is_neither_sent_nor_received() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let kind = |result: io::Result<()>| result.err().map(|error| error.kind());
        let long = vec![0; MAX_TEXT + 1];
        let refused = send(&near, FILE_LOAD, &long, None);
        assert_eq!(kind(refused), Some(io::ErrorKind::InvalidInput));
        near.write_all(&[FILE_LOAD, 1, 0, 1, 0]).unwrap();
        let refused = receive(&far).map(|_| ());
        assert_eq!(kind(refused), Some(io::ErrorKind::InvalidData));
    }
}
