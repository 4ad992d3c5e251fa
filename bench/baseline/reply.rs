//! The responses of `baseline` to each kind of request: constants, and the echo of a POST's body. Each response is as
//! long as a real server's response to the same request.

/// The maximum number of copies of a response. With several copies, one `send` can send several responses.
const MOST_COPIES: usize = 256;
/// The maximum size of all copies, in bytes. A longer response is stored once.
const MOST_BYTES: usize = 64 * 1024;

const OK: &str = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
const TEXT: &str = "Content-Type: text/plain; charset=utf-8\r\n";

/// How `baseline` reacts to a complete request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// Sends the constant response, and keeps the connection.
    Keep,
    /// Sends the constant response, and closes the connection.
    Close,
    /// Sends a response with the request's body.
    Echo,
}

/// The reply to one kind of request.
pub(crate) struct Reply {
    pub(crate) mode: Mode,
    /// Copies of the constant response; for an echo, the first part of the response's head.
    pub(crate) bytes: Vec<u8>,
    /// The length of one copy.
    pub(crate) length: usize,
}

impl Reply {
    /// Returns the reply to requests of the kind `kind`, or `None` if the kind is unknown.
    pub(crate) fn of(kind: &str) -> Option<Reply> {
        let (mode, response) = match kind {
            "hello" => (Mode::Keep, plain("Hello, World!\n")),
            "close" => (Mode::Close, with(&format!("{TEXT}Connection: close\r\n"), "Hello, World!\n")),
            "json" => (Mode::Keep, with("Content-Type: application/json\r\n", r#"{"user":"7","post":"42"}"#)),
            "small_file" => (Mode::Keep, plain(&"x".repeat(1024))),
            "large" => (Mode::Keep, plain(&"x".repeat(100 * 1024))),
            "large_file" => (Mode::Keep, plain(&"x".repeat(1024 * 1024))),
            "stream" => (Mode::Keep, chunked()),
            "echo" => (Mode::Echo, format!("{OK}Content-Type: application/octet-stream\r\nContent-Length: ")),
            _ => return None,
        };
        let copies = match mode {
            Mode::Keep => (MOST_BYTES / response.len()).clamp(1, MOST_COPIES),
            Mode::Close | Mode::Echo => 1,
        };
        Some(Reply { mode, length: response.len(), bytes: response.into_bytes().repeat(copies) })
    }
}

fn with(headers: &str, body: &str) -> String {
    format!("{OK}{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn plain(body: &str) -> String {
    with(TEXT, body)
}

fn chunked() -> String {
    let chunk = format!("80\r\n{}\n\r\n", "x".repeat(127));
    format!("{OK}{TEXT}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(8))
}

/// Returns the offsets at which the head and the body of the request at the start of `input` end, or `None` if the
/// request is not complete. Reads only the field `Content-Length`, spelled as the load programs spell it.
pub(crate) fn request(input: &[u8]) -> Option<(usize, usize)> {
    const NAME: &[u8] = b"\r\nContent-Length: ";
    let head = 4 + find(input, b"\r\n\r\n")?;
    let length = find(&input[..head], NAME).map_or(0, |at| {
        input[at + NAME.len()..head]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0'))
    });
    (input.len() >= head + length).then_some((head, head + length))
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let input = b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcPOST";
        assert_eq!(request(input), Some((42, 45)));
        assert_eq!(request(&input[..44]), None);
        assert_eq!(request(&input[..41]), None);
    }

    #[test]
    fn each_constant_has_its_content_length() {
        for kind in ["hello", "close", "json", "small_file", "large"] {
            let reply = Reply::of(kind).unwrap();
            let (_, end) = request(&reply.bytes[..reply.length]).unwrap();
            assert_eq!(end, reply.length, "{kind}");
        }
        assert!(Reply::of("nothing").is_none());
    }
}
