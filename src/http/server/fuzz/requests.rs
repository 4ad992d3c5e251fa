//! The requests that the clients of the fuzzer send.

use crate::codec::http1::write;

/// Returns a request, and whether it and its body are valid and complete. `size`: the length of its body, in units of its kind.
pub(super) fn of(kind: u8, size: usize) -> (Vec<u8>, bool) {
    let text = |text: &str| text.replace('\n', "\r\n").into_bytes();
    let with_body = |fields: &str, length: usize, sent: usize| {
        let mut all = format!("POST /p HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n").into_bytes();
        all.extend((0..sent).map(|at| b'A' + (at % 26) as u8));
        all
    };
    let chunked = |trailer: &str| {
        let mut all = text("POST /c HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n");
        write::chunk(&mut all, &vec![b'x'; size]);
        write::chunk(&mut all, &vec![b'y'; size * 3]);
        all.extend(text(trailer));
        all
    };
    let bytes = match kind % 24 {
        0 => text("GET / HTTP/1.1\nHost: a\n\n"),
        1 => text("GET /wait?a=b HTTP/1.1\nHost: a\nX-Y: z\nCookie: a=b; c=d\n\n"),
        2 => text("HEAD / HTTP/1.1\nHost: a\n\n"),
        3 => with_body("", size, size),
        4 => chunked("0\n\n"),
        5 => chunked("00;a=\"b\"\nT: u\n\n"),
        6 => text("GET / HTTP/1.0\n\n"),
        7 => text("GET / HTTP/1.0\nHost: a\nConnection: keep-alive\n\n"),
        8 => with_body("Expect: 100-continue\r\n", size + 1, size + 1),
        9 => with_body("Expect: 100-continue\r\n", size + 1, 0),
        10 => text("GET /up HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: x\n\n"),
        11 => text("GET / HTTP/1.1\nHost: a\nConnection: close\n\n"),
        12 => text("OPTIONS * HTTP/1.1\nHost: a\n\n"),
        13 => text("GET http://a/b HTTP/1.1\nHost: a\n\n"),
        14 => text("CONNECT a:80 HTTP/1.1\nHost: a:80\n\n"),
        15 => with_body("", size * 4096, 100),
        16 => text("\nGET / HTTP/1.1\nHost: a\nContent-Length: 0\n\n"),
        // The rest is malformed or ambiguous.
        17 => text("POST / HTTP/1.1\nHost: a\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\n\n"),
        18 => text("GET / HTTP/1.1\nHost: a\nHost: b\n\n"),
        19 => b"GET / HTTP/1.1\nHost: a\n\n".to_vec(),
        20 => text("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n4\nabcdX\n0\n\n"),
        21 => text("POST / HTTP/1.1\nHost: a\nContent-Length: 3, 4\n\nabcd"),
        22 => text("GET /%zz HTTP/1.1\nHost: a\n\n"),
        _ => text("GET / HTTP/1.1\nHost : a\n\n"),
    };
    // The bodies of two kinds are incomplete, so that the bytes of further requests belong to them.
    (bytes, kind % 24 < 17 && !matches!(kind % 24, 9 | 15))
}
