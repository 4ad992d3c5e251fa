//! What of a file answers a request: conditions and ranges put together. Part of `lio.http`, called by
//! `lualib/lio/web/file.lua` and [`super::site`].

use super::exchange::unix_seconds;
use super::request;
use crate::codec::conditional::{self, Conditions, Validators, Verdict};
use crate::codec::date;
use crate::codec::http1::head::Method;
use crate::codec::http1::request::RequestHead;
use crate::codec::media;
use crate::codec::range::{self, MOST, Selection, Span};
use crate::file::Facts;
use crate::raw::{Text, args, guard, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// Bytes that the name of a coding may have.
const CODING_MOST: usize = 16;
/// Room for a tag: three hexadecimal numbers, what separates them, and a coding.
const TAG_MOST: usize = 96;

/// What a representation is told by: plain data.
pub(super) struct Known {
    tag: [u8; TAG_MOST],
    tag_length: usize,
    date: [u8; date::LENGTH],
    /// Seconds since the epoch.
    modified: u64,
    now: u64,
}

/// What of a representation is to be sent.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) status: u16,
    pub(super) parts: usize,
}

/// The validators of a file whose bytes go out with a coding. The entity tag is strong: another content or another
/// coding has another one. It is the same on every machine that has the file with its time, and tells no inode.
pub(super) fn validators(facts: &Facts, coding: Option<&str>) -> Known {
    let now = unix_seconds();
    // A date that is still to come would be wrong (RFC 9110 section 8.8.2.1).
    let modified = u64::try_from(facts.seconds).unwrap_or(0);
    let modified = modified.min(now).min(date::LAST_SECOND);
    let mut known = Known {
        tag: [0; TAG_MOST],
        tag_length: 0,
        date: date::format(modified),
        modified,
        now,
    };
    known.put(b"\"");
    known.put_hexadecimal(facts.size);
    known.put(b"-");
    // As two's complement, for what is older than the epoch.
    known.put_hexadecimal(facts.seconds as u64);
    known.put(b".");
    known.put_hexadecimal(u64::from(facts.nanoseconds));
    if let Some(coding) = coding {
        known.put(b"-");
        known.put(coding.as_bytes());
    }
    known.put(b"\"");
    known
}

impl Known {
    /// The value of `ETag`.
    pub(super) fn tag(&self) -> &[u8] {
        &self.tag[..self.tag_length]
    }

    /// The value of `Last-Modified`.
    pub(super) fn date(&self) -> &[u8] {
        &self.date
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.tag_length + bytes.len();
        self.tag[self.tag_length..end].copy_from_slice(bytes);
        self.tag_length = end;
    }

    fn put_hexadecimal(&mut self, number: u64) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let nibble = (number >> (4 * digit) & 15) as usize;
            self.tag[self.tag_length] = b"0123456789abcdef"[nibble];
            self.tag_length += 1;
        }
    }

    /// How a request is answered: 200, 206, 304, 412 or 416, with spans for 206.
    pub(super) fn choose(
        &self,
        request: RequestHead<'_>,
        size: u64,
        spans: &mut [Span; MOST],
    ) -> Choice {
        let whole = |status| Choice { status, parts: 0 };
        if !request.has_conditions() {
            return whole(200);
        }
        let values = |name: &'static [u8]| request.joined(name);
        let [matches, none, since, unmodified, if_range] = [
            values(b"if-match"),
            values(b"if-none-match"),
            values(b"if-modified-since"),
            values(b"if-unmodified-since"),
            values(b"if-range"),
        ];
        let conditions = Conditions {
            if_match: matches.as_deref(),
            if_none_match: none.as_deref(),
            if_modified_since: since.as_deref(),
            if_unmodified_since: unmodified.as_deref(),
            if_range: if_range.as_deref(),
        };
        let known = Validators {
            tag: self.tag(),
            modified: self.modified,
            now: self.now,
        };
        match conditional::judge(&conditions, &known) {
            Verdict::NotModified => return whole(304),
            Verdict::Failed => return whole(412),
            Verdict::Send => {}
        }
        // Ranges are defined for GET alone (RFC 9110 section 14.2).
        let asked = values(b"range").filter(|_| request.method() == Method::Get);
        let Some(asked) = asked.filter(|_| conditional::allows_range(&conditions, &known)) else {
            return whole(200);
        };
        match range::select(&asked, size, spans) {
            Selection::Whole => whole(200),
            Selection::Nothing => whole(416),
            Selection::Parts(parts) => Choice { status: 206, parts },
        }
    }
}

/// `http.select(head, file, coding)` → status, tag, date: how the request is answered with the file, 200,
/// 206, 304, 412 or 416; its `ETag`, which names the coding of its bytes, and its `Last-Modified`. For 206 also the
/// first byte and the length, or a flat list of those of several ranges.
pub(super) unsafe extern "C-unwind" fn select(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell: what owns memory lives inside `guard` alone.
    unsafe {
        let request = request::head(state, 1);
        let facts = crate::raw::file::facts(state, 2);
        let coding = match args::is_none(state, 3) {
            true => None,
            false => Some(args::utf8(state, 3)).filter(|coding| coding.len() <= CODING_MOST),
        };
        let known = validators(&facts, coding);
        let mut spans = range::spans();
        let chosen = guard(|| Ok(known.choose(request, facts.size, &mut spans)));
        let choice = settle(state, chosen);
        ffi::lua_pushinteger(state, i64::from(choice.status));
        push_bytes(state, known.tag());
        push_bytes(state, known.date());
        match choice.parts {
            0 => 3,
            1 => {
                ffi::lua_pushinteger(state, spans[0].first as i64);
                ffi::lua_pushinteger(state, spans[0].length as i64);
                5
            }
            parts => {
                ffi::lua_createtable(state, parts as c_int * 2, 0);
                for (index, span) in spans[..parts].iter().enumerate() {
                    let at = index as i64 * 2;
                    ffi::lua_pushinteger(state, span.first as i64);
                    ffi::lua_rawseti(state, -2, at + 1);
                    ffi::lua_pushinteger(state, span.length as i64);
                    ffi::lua_rawseti(state, -2, at + 2);
                }
                4
            }
        }
    }
}

/// `http.media_type(name)` → the value of `Content-Type` for a file of that name, and whether such files
/// are worth a compressed copy.
pub(super) unsafe extern "C-unwind" fn media_type(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select`.
    unsafe {
        let kind = media::of(args::bytes(state, 1));
        let end = if media::is_text(kind) {
            "; charset=utf-8"
        } else {
            ""
        };
        let shown = Text::format(format_args!("{kind}{end}"));
        push_bytes(state, shown.as_bytes());
        ffi::lua_pushboolean(state, media::is_compressible(kind).into());
        2
    }
}

/// `http.boundary()` → what separates the parts of a multipart body: unlike anything that a file could
/// have on purpose.
pub(super) unsafe extern "C-unwind" fn boundary(state: *mut lua_State) -> c_int {
    use std::hash::{BuildHasher, RandomState};
    // SAFETY: as for `select`.
    unsafe {
        let made = guard(|| {
            let random = || RandomState::new().hash_one(unix_seconds());
            Ok(Text::format(format_args!(
                "{:016x}{:016x}",
                random(),
                random()
            )))
        });
        push_bytes(state, settle(state, made).as_bytes());
        1
    }
}
