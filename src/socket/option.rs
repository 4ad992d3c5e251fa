//! Socket options by name (socket(7), tcp(7), ip(7), ipv6(7)).

use super::Socket;
use rustix::io::Errno;
use socket2::{Domain, TcpKeepalive};
use std::io;
use std::time::Duration;

/// The option names.
#[derive(Clone, Copy)]
pub(crate) enum Name {
    ReuseAddress,
    ReusePort,
    NoDelay,
    UnsentMost,
    KeepAlive,
    SendBuffer,
    ReceiveBuffer,
    Broadcast,
    V6Only,
    Linger,
    Ttl,
    Tos,
    KeepIdle,
    KeepInterval,
    KeepCount,
}

/// The value of an option.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Flag(bool),
    Number(i64),
}

impl Value {
    fn flag(self) -> bool {
        match self {
            Value::Flag(flag) => flag,
            Value::Number(number) => number != 0,
        }
    }

    fn number(self) -> io::Result<u32> {
        let number = match self {
            Value::Flag(flag) => i64::from(flag),
            Value::Number(number) => number,
        };
        u32::try_from(number).map_err(|_| Errno::INVAL.into())
    }
}

/// All options by name.
const NAMES: [(&str, Name); 15] = [
    ("broadcast", Name::Broadcast),
    ("keepalive", Name::KeepAlive),
    ("keepcnt", Name::KeepCount),
    ("keepidle", Name::KeepIdle),
    ("keepintvl", Name::KeepInterval),
    ("linger", Name::Linger),
    ("nodelay", Name::NoDelay),
    ("notsent_lowat", Name::UnsentMost),
    ("rcvbuf", Name::ReceiveBuffer),
    ("reuseaddr", Name::ReuseAddress),
    ("reuseport", Name::ReusePort),
    ("sndbuf", Name::SendBuffer),
    ("tos", Name::Tos),
    ("ttl", Name::Ttl),
    ("v6only", Name::V6Only),
];

impl Name {
    pub(crate) fn parse(name: &[u8]) -> Option<Name> {
        NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|&(_, name)| name)
    }

    /// Returns the names of all options.
    pub(crate) fn all() -> [&'static str; NAMES.len()] {
        NAMES.map(|(name, _)| name)
    }
}

/// Sets an option. Times are in whole seconds. For `linger`, the value `false` turns lingering off.
pub(crate) fn set(socket: &Socket, name: Name, value: Value) -> io::Result<()> {
    let raw = socket.raw()?;
    let v6 = socket.protocol().domain() == Domain::IPV6;
    match name {
        Name::ReuseAddress => raw.set_reuse_address(value.flag()),
        Name::ReusePort => raw.set_reuse_port(value.flag()),
        Name::NoDelay => raw.set_tcp_nodelay(value.flag()),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Name::UnsentMost => raw.set_tcp_notsent_lowat(value.number()?),
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        Name::UnsentMost => value.number().and(Err(io::ErrorKind::Unsupported.into())),
        Name::KeepAlive => raw.set_keepalive(value.flag()),
        Name::SendBuffer => raw.set_send_buffer_size(value.number()? as usize),
        Name::ReceiveBuffer => raw.set_recv_buffer_size(value.number()? as usize),
        Name::Broadcast => raw.set_broadcast(value.flag()),
        Name::V6Only => raw.set_only_v6(value.flag()),
        Name::Linger => raw.set_linger(match value {
            Value::Flag(false) => None,
            _ => Some(seconds(value)?),
        }),
        Name::Ttl if v6 => raw.set_unicast_hops_v6(value.number()?),
        Name::Ttl => raw.set_ttl_v4(value.number()?),
        Name::Tos if v6 => raw.set_tclass_v6(value.number()?),
        Name::Tos => raw.set_tos_v4(value.number()?),
        Name::KeepIdle => raw.set_tcp_keepalive(&TcpKeepalive::new().with_time(seconds(value)?)),
        Name::KeepInterval => raw.set_tcp_keepalive(&TcpKeepalive::new().with_interval(seconds(value)?)),
        Name::KeepCount => raw.set_tcp_keepalive(&TcpKeepalive::new().with_retries(value.number()?)),
    }
}

/// Reads an option.
pub(crate) fn get(socket: &Socket, name: Name) -> io::Result<Value> {
    let raw = socket.raw()?;
    let v6 = socket.protocol().domain() == Domain::IPV6;
    let number = |value: u32| Value::Number(i64::from(value));
    let span = |value: Duration| Value::Number(value.as_secs() as i64);
    Ok(match name {
        Name::ReuseAddress => Value::Flag(raw.reuse_address()?),
        Name::ReusePort => Value::Flag(raw.reuse_port()?),
        Name::NoDelay => Value::Flag(raw.tcp_nodelay()?),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Name::UnsentMost => number(raw.tcp_notsent_lowat()?),
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        Name::UnsentMost => return Err(io::ErrorKind::Unsupported.into()),
        Name::KeepAlive => Value::Flag(raw.keepalive()?),
        Name::SendBuffer => Value::Number(raw.send_buffer_size()? as i64),
        Name::ReceiveBuffer => Value::Number(raw.recv_buffer_size()? as i64),
        Name::Broadcast => Value::Flag(raw.broadcast()?),
        Name::V6Only => Value::Flag(raw.only_v6()?),
        Name::Linger => raw.linger()?.map_or(Value::Flag(false), span),
        Name::Ttl if v6 => number(raw.unicast_hops_v6()?),
        Name::Ttl => number(raw.ttl_v4()?),
        Name::Tos if v6 => number(raw.tclass_v6()?),
        Name::Tos => number(raw.tos_v4()?),
        Name::KeepIdle => span(raw.tcp_keepalive_time()?),
        Name::KeepInterval => span(raw.tcp_keepalive_interval()?),
        Name::KeepCount => number(raw.tcp_keepalive_retries()?),
    })
}

fn seconds(value: Value) -> io::Result<Duration> {
    Ok(Duration::from_secs(u64::from(value.number()?)))
}
