//! A second reader of messages, for comparison with the parsers. It works on whole messages, line by line, and shares no
//! code with the parsers.

/// The first line and the fields of a head.
pub(crate) struct Message<'b> {
    pub(crate) first: &'b [u8],
    pub(crate) fields: Vec<(&'b [u8], &'b [u8])>,
}

/// The framing that the fields announce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Announced {
    Nothing,
    Length(u64),
    Chunked,
}

impl<'b> Message<'b> {
    /// Reads a head that ends with its blank line. Returns `None` if two readers could split it differently.
    pub(crate) fn read(head: &'b [u8]) -> Option<Message<'b>> {
        let mut lines = lines(head)?.into_iter();
        let first = lines.by_ref().find(|line| !line.is_empty())?;
        let mut fields: Vec<_> = lines.map(field).collect();
        // The blank line, and the empty rest after it.
        let blank = [fields.pop()?, fields.pop()?];
        if blank != [None, None] || !head.ends_with(b"\r\n\r\n") {
            return None;
        }
        Some(Message { first, fields: fields.into_iter().collect::<Option<_>>()? })
    }

    /// Returns the members of all fields with this name, which must be in lower case.
    pub(crate) fn members(&self, name: &str) -> Vec<String> {
        let named = self.fields.iter().filter(|(other, _)| other.to_ascii_lowercase() == name.as_bytes());
        let text = named.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>();
        text.iter()
            .flat_map(|text| text.split(','))
            .map(|member| member.trim_matches([' ', '\t']).to_ascii_lowercase())
            .collect()
    }

    /// Returns the announced framing; `None` if it is ambiguous.
    pub(crate) fn announced(&self) -> Option<Announced> {
        let (lengths, codings) = (self.members("content-length"), self.members("transfer-encoding"));
        if !codings.is_empty() {
            return (codings == ["chunked"] && lengths.is_empty()).then_some(Announced::Chunked);
        }
        let Some(first) = lengths.first() else { return Some(Announced::Nothing) };
        let is_number = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = first.parse::<u64>().ok()?;
        lengths.iter().all(|text| is_number(text) && text.parse() == Ok(value)).then_some(Announced::Length(value))
    }
}

/// Returns the lines of a text in which each line ends with CRLF, and these bytes and NUL occur nowhere else.
fn lines(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let last = lines.len() - 1;
    for line in &mut lines[..last] {
        *line = line.strip_suffix(b"\r")?;
    }
    lines.iter().all(|line| !line.contains(&b'\r') && !line.contains(&0)).then_some(lines)
}

/// Splits a line into a name and a value without white space around it.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, mut value) = (&line[..colon], &line[colon + 1..]);
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    let is_text = value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
    (is_token(name) && is_text).then_some((name, value))
}

pub(crate) fn is_token(text: &[u8]) -> bool {
    let is_other = |byte: &u8| b"()<>@,;:\\\"/[]?={}".contains(byte);
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_graphic() && !is_other(byte))
}

/// Reads the fields of a section that ends with its blank line.
pub(crate) fn section(text: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let head = [b"first\r\n", text].concat();
    let read = Message::read(&head)?;
    Some(read.fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
}

/// How a reader of chunks finds the end of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// At a CRLF.
    Strict,
    /// At a line feed, with or without a carriage return before it.
    Lenient,
}

/// Decodes chunks. Returns the data and the offset of the trailer section; `None` if the reader fails.
pub(crate) fn chunks(bytes: &[u8], line_end: LineEnd) -> Option<(Vec<u8>, usize)> {
    let (mut data, mut at) = (Vec::new(), 0);
    loop {
        let (line, behind) = line(bytes, at, line_end)?;
        let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
        let size = std::str::from_utf8(&line[..digits]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some((data, behind));
        }
        let end = behind.checked_add(size)?;
        data.extend_from_slice(bytes.get(behind..end)?);
        let (rest, next) = self::line(bytes, end, line_end)?;
        if !rest.is_empty() {
            return None;
        }
        at = next;
    }
}

/// Returns the line at an offset, and the offset after it.
fn line(bytes: &[u8], at: usize, line_end: LineEnd) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let end = match line_end {
        LineEnd::Strict => rest.windows(2).position(|pair| pair == b"\r\n")? + 1,
        LineEnd::Lenient => rest.iter().position(|&byte| byte == b'\n')?,
    };
    let line = &rest[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), at + end + 1))
}
