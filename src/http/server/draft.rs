//! The fields that a handler has set before its response.

use crate::codec::http1::write::{BadField, HandlerFields, Role, check_field};

/// Fields in the order in which they were set, as checked lines that are ready to be sent.
#[derive(Default, Debug)]
pub(crate) struct Draft {
    text: Vec<u8>,
    lines: Vec<Line>,
    /// The fields set by middleware, which an error response keeps.
    saved: Option<Box<(Vec<u8>, Vec<Line>)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    start: u32,
    /// The offset after the name; `end` is the offset after the line's CRLF.
    colon: u32,
    end: u32,
    role: Role,
}

/// The fields that describe a body, in lower case and sorted. An error response has a different body.
const OF_BODY: [&[u8]; 13] = [
    b"accept-ranges",
    b"cache-control",
    b"content-disposition",
    b"content-encoding",
    b"content-language",
    b"content-length",
    b"content-location",
    b"content-range",
    b"content-type",
    b"etag",
    b"expires",
    b"last-modified",
    b"trailer",
];

impl Draft {
    /// Adds a field.
    ///
    /// # Errors
    /// An error if the field cannot be sent. The draft is then unchanged.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadField> {
        self.append(name, value, check(name, value)?);
        Ok(())
    }

    /// Sets a field. It replaces all fields with this name, and becomes the last field.
    ///
    /// # Errors
    /// The errors of [`Draft::add`].
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadField> {
        let role = check(name, value)?;
        if !self.lines.is_empty() {
            self.remove(name);
        }
        self.append(name, value, role);
        Ok(())
    }

    /// Removes all fields with this name.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        self.retain(|draft, line| !draft.name(line).eq_ignore_ascii_case(name));
    }

    /// Returns the value of the first field with this name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.lines.iter().find(|line| self.name(**line).eq_ignore_ascii_case(name));
        found.map(|line| self.value(*line))
    }

    /// Removes the fields that describe a body.
    pub(crate) fn remove_body_fields(&mut self) {
        self.retain(|draft, line| {
            let name = draft.name(line).to_ascii_lowercase();
            OF_BODY.binary_search(&&name[..]).is_err()
        });
    }

    /// Saves the current fields, which replace the fields saved before.
    pub(crate) fn save(&mut self) {
        self.saved = Some(Box::new((self.text.clone(), self.lines.clone())));
    }

    /// Restores the saved fields.
    pub(crate) fn restore(&mut self) {
        (self.text, self.lines) = self.saved.as_deref().cloned().unwrap_or_default();
    }

    /// Removes the current fields. [`Draft::restore`] can still restore the saved fields.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }

    /// Removes the current fields and the saved fields.
    pub(crate) fn reset(&mut self) {
        self.clear();
        self.saved = None;
    }

    /// Appends the lines that must be sent to `out`. Returns the properties of all lines.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> HandlerFields {
        let mut fields = HandlerFields::default();
        if self.lines.iter().all(|line| line.role == Role::Plain) {
            out.extend_from_slice(&self.text);
            return fields;
        }
        for line in &self.lines {
            if fields.record(line.role, self.value(*line)) {
                out.extend_from_slice(&self.text[line.start as usize..line.end as usize]);
            }
        }
        fields
    }

    fn append(&mut self, name: &[u8], value: &[u8], role: Role) {
        let start = self.text.len();
        self.text.reserve(name.len() + value.len() + 4);
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b": ");
        self.text.extend_from_slice(value);
        self.text.extend_from_slice(b"\r\n");
        self.lines.push(Line {
            start: start as u32,
            colon: (start + name.len()) as u32,
            end: self.text.len() as u32,
            role,
        });
    }

    fn name(&self, line: Line) -> &[u8] {
        &self.text[line.start as usize..line.colon as usize]
    }

    fn value(&self, line: Line) -> &[u8] {
        &self.text[line.colon as usize + 2..line.end as usize - 2]
    }

    /// Keeps the lines for which `stays` returns true.
    fn retain(&mut self, stays: impl Fn(&Self, Line) -> bool) {
        if self.lines.iter().all(|line| stays(self, *line)) {
            return;
        }
        let mut rest = Draft::default();
        for line in &self.lines {
            if stays(self, *line) {
                rest.append(self.name(*line), self.value(*line), line.role);
            }
        }
        (self.text, self.lines) = (rest.text, rest.lines);
    }
}

fn check(name: &[u8], value: &[u8]) -> Result<Role, BadField> {
    check_field(name, value)?;
    match Role::of(name) {
        Role::TransferEncoding => Err(BadField::Forbidden),
        role => Ok(role),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(draft: &Draft) -> String {
        let mut out = Vec::new();
        draft.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_field_that_is_set_again_becomes_the_last() {
        let mut draft = Draft::default();
        draft.add(b"A", b"1").unwrap();
        draft.add(b"B", b"2").unwrap();
        draft.add(b"a", b"3").unwrap();
        assert_eq!(draft.get(b"a"), Some(&b"1"[..]));
        assert_eq!(text(&draft), "A: 1\r\nB: 2\r\na: 3\r\n");
        draft.set(b"A", b"4").unwrap();
        assert_eq!(text(&draft), "B: 2\r\nA: 4\r\n");
        draft.remove(b"b");
        draft.remove(b"c");
        assert_eq!(text(&draft), "A: 4\r\n");
        assert_eq!(draft.get(b"B"), None);
    }

    #[test]
    fn a_field_that_cannot_be_sent_changes_nothing() {
        let mut draft = Draft::default();
        draft.set(b"A", b"1").unwrap();
        assert_eq!(draft.set(b"A", b"1\r\nB: 2"), Err(BadField::Value));
        assert_eq!(draft.add(b"A b", b"1"), Err(BadField::Name));
        assert_eq!(draft.set(b"transfer-encoding", b"chunked"), Err(BadField::Forbidden));
        assert_eq!(text(&draft), "A: 1\r\n");
    }

    #[test]
    fn fields_that_the_server_sets_are_recorded_and_left_out() {
        let mut draft = Draft::default();
        draft.add(b"Connection", b"close").unwrap();
        draft.add(b"Content-Length", b"12").unwrap();
        draft.add(b"Content-Type", b"a/b").unwrap();
        assert_eq!(draft.get(b"connection"), Some(&b"close"[..]));
        let mut out = Vec::new();
        let fields = draft.write(&mut out);
        assert_eq!(out, b"Content-Type: a/b\r\n");
        assert!(fields.close && fields.content_type && fields.length == Some(12));
    }

    #[test]
    fn restoring_keeps_only_the_saved_fields() {
        let mut draft = Draft::default();
        draft.add(b"X-Trace", b"1").unwrap();
        draft.save();
        draft.add(b"Set-Cookie", b"a=b").unwrap();
        draft.restore();
        assert_eq!(text(&draft), "X-Trace: 1\r\n");
        draft.add(b"ETag", b"\"x\"").unwrap();
        draft.add(b"Content-Type", b"a/b").unwrap();
        draft.remove_body_fields();
        assert_eq!(text(&draft), "X-Trace: 1\r\n");
        draft.reset();
        draft.restore();
        assert_eq!(text(&draft), "");
        assert!(OF_BODY.is_sorted());
    }
}
