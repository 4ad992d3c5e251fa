//! What of a file answers a request: conditions and ranges put together. Part of `lio.http`, called by
//! `lualib/lio/web/file.lua`.

use super::conditional::{self, Conditions, Validators, Verdict};
use super::exchange::unix_seconds;
use super::head::Method;
use super::range::{self, MOST, Selection, Span};
use super::request::Request;
use super::{coding, media};
use crate::file::Facts;
use crate::lua::object;
use crate::lua::{Text, args, guard, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::time::{Duration, SystemTime};

/// The last second that an HTTP date can tell.
const LAST_SECOND: u64 = 253_402_300_799;

/// A strong entity tag: another file, another content or another coding has another one.
fn tag_of(facts: &Facts, suffix: &str) -> Text {
    Text::format(format_args!(
        "\"{:x}-{:x}-{:x}.{:x}{suffix}\"",
        facts.inode, facts.size, facts.seconds, facts.nanoseconds
    ))
}

/// What of a representation is to be sent.
#[derive(Clone, Copy)]
struct Choice {
    status: u16,
    parts: usize,
}

fn choose(
    request: &Request,
    tag: &[u8],
    modified: u64,
    size: u64,
    spans: &mut [Span; MOST],
) -> Choice {
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
        tag,
        modified,
        now: unix_seconds(),
    };
    let whole = |status| Choice { status, parts: 0 };
    match conditional::judge(&conditions, &known) {
        Verdict::NotModified => return whole(304),
        Verdict::Failed => return whole(412),
        Verdict::Send => {}
    }
    // Ranges are defined for GET alone (RFC 9110 section 14.2).
    let asked = values(b"range").filter(|_| request.method_id() == Method::Get);
    let Some(asked) = asked.filter(|_| conditional::allows_range(&conditions, &known)) else {
        return whole(200);
    };
    match range::select(&asked, size, spans) {
        Selection::Whole => whole(200),
        Selection::Nothing => whole(416),
        Selection::Parts(parts) => Choice { status: 206, parts },
    }
}

/// `http.select(head, file, suffix)` → status, tag, date: how the request is answered with the file, 200,
/// 206, 304, 412 or 416; its `ETag`, which ends in `suffix`, and its `Last-Modified`. For 206 also the
/// first byte and the length, or a flat list of those of several ranges.
pub(super) unsafe extern "C-unwind" fn select(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell: what owns memory lives inside `guard` alone.
    unsafe {
        let request = &*object::check::<Request>(state, 1);
        let facts = *crate::file::lua::check(state, 2).facts();
        let tag = tag_of(&facts, args::utf8(state, 3));
        let now = unix_seconds();
        // A date that is still to come would be wrong (RFC 9110 section 8.8.2.1).
        let modified = u64::try_from(facts.seconds).unwrap_or(0);
        let modified = modified.min(now).min(LAST_SECOND);
        let mut spans = range::spans();
        let chosen = guard(|| {
            let tag = tag.as_bytes();
            Ok(choose(request, tag, modified, facts.size, &mut spans))
        });
        let choice = settle(state, chosen);
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(modified);
        let date = Text::format(format_args!("{}", httpdate::HttpDate::from(when)));
        ffi::lua_pushinteger(state, i64::from(choice.status));
        push_bytes(state, tag.as_bytes());
        push_bytes(state, date.as_bytes());
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

/// `http.accepted(head)` → the codings of `"br"` and `"gzip"` that the client takes, the one that it likes
/// best first; nothing for none.
pub(super) unsafe extern "C-unwind" fn accepted(state: *mut lua_State) -> c_int {
    // SAFETY: as for `select`.
    unsafe {
        let request = &*object::check::<Request>(state, 1);
        let found = guard(|| {
            let field = request.joined(b"accept-encoding");
            Ok(coding::accepted(field.as_deref().unwrap_or_default()))
        });
        let mut count = 0;
        for coding in settle(state, found).into_iter().flatten() {
            push_bytes(state, coding.as_bytes());
            count += 1;
        }
        count
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
