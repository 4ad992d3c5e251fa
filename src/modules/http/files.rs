//! Files as responses, for `res:file` and `app:static` of lualib/lio/web/: `http.choose_response`,
//! `http.open_compressed_copy`, `http.media_type`, `http.boundary`.

use super::request;
use crate::codec::media_type;
use crate::event::clock::unix_seconds;
use crate::file::folder::Folder;
use crate::file::{OpenFile, Refusal};
use crate::http::files::{Choice, Validators, accepted, find_copy};
use crate::lua::{Call, Either, Fault, Function, Maybe, New, Value};
use std::hash::{BuildHasher, RandomState};

/// `http.choose_response(req, file, coding)`: decides how to respond with a file. Returns the status (200, 206, 304,
/// 412 or 416), the value of `ETag`, which includes the coding, and the value of `Last-Modified`. For 206, also returns
/// the first byte and the length, or a list of `{ first =, length = }` for several ranges.
pub(crate) const CHOOSE_RESPONSE: Function = Function::new(|call: &mut Call<'_>| {
    let head = request::head(call, 1)?;
    let metadata = call.object::<OpenFile>(2)?.metadata();
    let coding = if call.is_none(3) { None } else { Some(call.utf8(3)?) };
    let known = Validators::of(metadata, coding, unix_seconds());
    let choice = known.choose(head, metadata.size);
    let (status, tag, date) = (i64::from(choice.status()), known.tag().to_vec(), known.date().to_vec());
    let Choice::Parts(parts) = choice else {
        return Ok::<_, Fault>(Either::Other((status, tag, date, None)));
    };
    if let [part] = parts[..] {
        return Ok(Either::One((status, tag, date, part.first as i64, part.length as i64)));
    }
    let ranges = parts.iter().map(|part| {
        let [first, length] = [part.first, part.length].map(|number| Value::Integer(number as i64));
        Value::Record(vec![("first", first), ("length", length)])
    });
    Ok(Either::Other((status, tag, date, Some(Value::List(ranges.collect())))))
});

/// A compressed copy and its coding, or nothing.
pub(super) type Copied = Maybe<(New<OpenFile>, &'static str)>;

/// Converts a copy for Lua.
pub(super) fn copied(found: Option<(OpenFile, &'static str)>) -> Copied {
    Maybe(found.map(|(copy, coding)| (New::of(copy), coding)))
}

/// `http.open_compressed_copy(folder, path, file, req)`: `path` is the path of `file` in the folder, or, if `folder` is
/// nil, the path with which the program opened `file`. Returns the compressed copy in the same directory, and the
/// copy's coding; nothing if there is no copy.
pub(crate) const OPEN_COMPRESSED_COPY: Function = Function::new(|call: &mut Call<'_>| {
    let path = call.bytes(2)?.to_vec();
    let metadata = *call.object::<OpenFile>(3)?.metadata();
    let accepted = accepted(request::head(call, 4)?);
    let found = match call.is_none(1) {
        true => find_copy(OpenFile::open, &path, &metadata, accepted),
        false => {
            let folder = call.object_mut::<Folder>(1)?;
            let open = |name: &[u8]| -> Result<OpenFile, Refusal> { folder.open_beneath(name) };
            find_copy(open, &path, &metadata, accepted)
        }
    };
    Ok::<_, Fault>(copied(found))
});

/// `http.media_type(name)`: returns the value of `Content-Type` for a file with this name, and whether a compressed
/// copy of such a file saves space.
pub(crate) const MEDIA_TYPE: Function = Function::new(|call: &mut Call<'_>| {
    let media_type = media_type::of(call.bytes(1)?);
    Ok::<_, Fault>((media_type::with_charset(media_type), media_type::is_compressible(media_type)))
});

/// `http.boundary()`: returns a random boundary for the parts of a multipart body. The boundary cannot be predicted, so
/// a file cannot be made to contain it.
pub(crate) const BOUNDARY: Function = Function::new(|_: &mut Call<'_>| {
    let random = || RandomState::new().hash_one(unix_seconds());
    Ok::<_, Fault>(format!("{:016x}{:016x}", random(), random()))
});
