//! What `baseline` answers, by the kind of request that it stands beside: constants, and the body of a POST sent back.
//! Each answer is as long as a real server's to the same request.

/// Copies of a short answer that one `send` can take from.
const COPIES: usize = 256;
/// Copies of an answer take no more memory than this, or one does.
const COPIED: usize = 64 * 1024;

const OK: &str = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
const TEXT: &str = "Content-Type: text/plain; charset=utf-8\r\n";

/// What happens once a request's blank line has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    /// The constant answer, and the connection goes on.
    Keep,
    /// The constant answer, and the connection ends.
    Close,
    /// An answer with the request's body.
    Echo,
}

/// How one kind of request is answered.
pub(crate) struct Floor {
    pub(crate) manner: Manner,
    /// The constant answer, as often as one `send` may use it.
    pub(crate) answers: Vec<u8>,
    /// Bytes of one answer; of an echo, of its head.
    pub(crate) length: usize,
}

impl Floor {
    /// The floor of a kind by its name; `None` when there is none of that name.
    pub(crate) fn of(kind: &str) -> Option<Floor> {
        let (manner, answer) = match kind {
            "hello" => (Manner::Keep, plain("Hello, World!\n")),
            "close" => (Manner::Close, with(&format!("{TEXT}Connection: close\r\n"), "Hello, World!\n")),
            "json" => (Manner::Keep, with("Content-Type: application/json\r\n", r#"{"user":"7","post":"42"}"#)),
            "small_file" => (Manner::Keep, plain(&"x".repeat(1024))),
            "large" => (Manner::Keep, plain(&"x".repeat(100 * 1024))),
            "large_file" => (Manner::Keep, plain(&"x".repeat(1024 * 1024))),
            "stream" => (Manner::Keep, chunked()),
            "echo" => (Manner::Echo, format!("{OK}Content-Type: application/octet-stream\r\nContent-Length: ")),
            _ => return None,
        };
        let copies = match manner {
            Manner::Keep => (COPIED / answer.len()).clamp(1, COPIES),
            Manner::Close | Manner::Echo => 1,
        };
        Some(Floor { manner, length: answer.len(), answers: answer.into_bytes().repeat(copies) })
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

/// The request at the beginning of `input`: where its head and its body end. `None` when it is not all there. Only
/// `Content-Length` is looked at, and only as load programs write it.
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
    fn every_constant_says_its_length() {
        for kind in ["hello", "close", "json", "small_file", "large"] {
            let floor = Floor::of(kind).unwrap();
            let (_, end) = request(&floor.answers[..floor.length]).unwrap();
            assert_eq!(end, floor.length, "{kind}");
        }
        assert!(Floor::of("nothing").is_none());
    }
}
