//! What a program and the `lio --watch` that runs it say to each other: frames on a pair of unix stream
//! sockets, with a descriptor beside a frame where one is passed (unix(7), SCM_RIGHTS).
//!
//! A frame is its kind, the length of its text (4 bytes, little endian), and the text. The descriptor
//! travels with the first byte, so that it belongs to the frame that is being read.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The environment variable with the number of the program's end of the pair.
pub const VARIABLE: &str = "LIO_WATCH_FD";

/// From the program: it loads a file. Text: a [`Fingerprint`](super::fingerprint), then the absolute path.
pub const LOADS: u8 = b'F';
/// From the program: it wants a socket, by its key. Answered by [`HERE`] or [`NO`].
pub const WANTS: u8 = b'W';
/// From the program: it has made a socket, which comes along. Text: its key.
pub const MADE: u8 = b'M';
/// From the program: it has closed a socket that it wanted or made. Text: its key.
pub const CLOSED: u8 = b'C';
/// From the program: the address of this key is taken. Answered by [`YES`] while it may become free.
pub const TAKEN: u8 = b'T';
/// From the program: does another one take its place? Answered by [`YES`] or [`NO`].
pub const REPLACED: u8 = b'R';
/// To the program: yes.
pub const YES: u8 = b'y';
/// To the program: no.
pub const NO: u8 = b'n';
/// To the program: the socket that it wants comes along.
pub const HERE: u8 = b'h';

const HEAD: usize = 5;
/// No text is longer: paths and keys are short.
const MOST: usize = 64 * 1024;

/// One message.
pub struct Frame {
    /// Which one; see the constants.
    pub kind: u8,
    /// What it says.
    pub text: Vec<u8>,
    /// What came along.
    pub descriptor: Option<OwnedFd>,
}

/// Room for one descriptor in a control message, aligned for its head.
#[repr(C)]
union Control {
    _head: libc::cmsghdr,
    bytes: [MaybeUninit<u8>; 64],
}

/// Sends a frame. Blocks while the other side is behind.
///
/// # Errors
/// Those of sendmsg(2); the other side may be gone.
pub fn send(
    mut socket: &UnixStream,
    kind: u8,
    text: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    if text.len() > MOST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut frame = Vec::with_capacity(HEAD + text.len());
    frame.push(kind);
    frame.extend_from_slice(&(text.len() as u32).to_le_bytes());
    frame.extend_from_slice(text);
    let sent = match descriptor {
        Some(descriptor) => send_with(socket, &frame, descriptor)?,
        None => 0,
    };
    socket.write_all(&frame[sent..])
}

fn send_with(socket: &UnixStream, data: &[u8], passed: BorrowedFd<'_>) -> io::Result<usize> {
    let mut control = Control {
        bytes: [MaybeUninit::new(0); 64],
    };
    let mut piece = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    let size = size_of::<libc::c_int>() as u32;
    // SAFETY: the message's parts outlive the call; the control block holds one descriptor and is aligned.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size) as _;
        let number = passed.as_raw_fd();
        libc::CMSG_DATA(head)
            .cast::<libc::c_int>()
            .write_unaligned(number);
        loop {
            let sent = libc::sendmsg(socket.as_raw_fd(), &message, 0);
            if sent >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break sent;
            }
        }
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Waits for a frame; `None` at the end.
///
/// # Errors
/// Those of recvmsg(2), and a frame that is none.
pub fn receive(mut socket: &UnixStream) -> io::Result<Option<Frame>> {
    let mut head = [0; HEAD];
    let (count, descriptor) = receive_with(socket, &mut head)?;
    if count == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut head[count..])?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    Ok(Some(Frame {
        kind: head[0],
        text,
        descriptor,
    }))
}

fn receive_with(socket: &UnixStream, data: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut control = Control {
        bytes: [MaybeUninit::new(0); 64],
    };
    let mut piece = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: data.len(),
    };
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    let flags = libc::MSG_CMSG_CLOEXEC;
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    let flags = 0;
    // SAFETY: as for `send_with`; a descriptor that came is owned by nobody else.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as _;
        let count = loop {
            let count = libc::recvmsg(socket.as_raw_fd(), &mut message, flags);
            if count >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break count;
            }
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let head = libc::CMSG_FIRSTHDR(&message);
        if head.is_null()
            || (*head).cmsg_level != libc::SOL_SOCKET
            || (*head).cmsg_type != libc::SCM_RIGHTS
        {
            return Ok((count, None));
        }
        let number = libc::CMSG_DATA(head).cast::<libc::c_int>().read_unaligned();
        let descriptor = OwnedFd::from_raw_fd(number);
        libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        Ok((count, Some(descriptor)))
    }
}
