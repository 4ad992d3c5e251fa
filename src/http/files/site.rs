//! A served folder. Each request opens the file, or at least reads its metadata, so the bytes, length and validators of
//! a response belong to the same state of the file.

use super::cache::Cache;
use super::compressed_copies::{Accepted, MissingCopies, find_copy, is_copy, path_of};
use super::validators::{Choice, Validators};
use crate::codec::{media_type, uri};
use crate::file::folder::Folder;
use crate::file::{Kind, Metadata, OpenFile, Refusal, read_at};
use crate::http::server::Clock;
use bytes::Bytes;

/// The maximum size of a file, or of a range, that is read at once, in bytes; the kernel sends longer ones.
/// lualib/lio/web/file.lua has the same value.
const MAX_READ: u64 = 32 * 1024;

/// The options of a served folder.
#[derive(Default)]
pub(crate) struct Options {
    /// Whether names that begin with a dot are served.
    pub(crate) hidden: bool,
    /// Whether compressed copies are served.
    pub(crate) precompressed: bool,
    /// The value of `Cache-Control`.
    pub(crate) cache_control: Option<Box<[u8]>>,
    /// The maximum size of the cache, and of one cached file, in bytes. If `cache` is 0, nothing is cached.
    pub(crate) cache: usize,
    pub(crate) cache_file: usize,
}

/// The options of a folder, and the cached state of its files.
pub(crate) struct Site {
    options: Options,
    missing: MissingCopies,
    cache: Cache,
}

/// The representation of a file: the file itself, or a compressed copy of it.
pub(crate) struct Representation {
    path: Vec<u8>,
    pub(crate) metadata: Metadata,
    pub(crate) content: Content,
    /// The media type, without a charset.
    media_type: &'static str,
    coding: Option<&'static str>,
    /// Whether other clients can get a different representation.
    varies: bool,
}

pub(crate) enum Content {
    Bytes(Bytes),
    File(OpenFile),
}

impl Site {
    pub(crate) fn new(options: Options) -> Site {
        Site { missing: MissingCopies::default(), cache: Cache::new(options.cache, options.cache_file), options }
    }

    /// Converts the raw tail of a request path to a path below the folder. Returns `None` if the tail cannot name a
    /// file, or if the file is hidden.
    pub(crate) fn path(&self, tail: &[u8]) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        uri::percent_decode(tail, false, &mut path).ok()?;
        let is_hidden = || path[0] == b'.' || memchr::memmem::find(&path, b"/.").is_some();
        let is_served = !path.is_empty() && !path.ends_with(b"/") && (self.options.hidden || !is_hidden());
        is_served.then_some(path)
    }

    /// Finds the representation of the file at `path` for a client that accepts these codings.
    ///
    /// # Errors
    /// If the path names a directory, the error contains the opened directory; otherwise it is the reason why the file
    /// cannot be opened.
    pub(crate) fn find(
        &mut self, folder: &mut Folder, path: Vec<u8>, accepted: Accepted, clock: Clock,
    ) -> Result<Representation, Result<OpenFile, Refusal>> {
        let (metadata, content) = self.get(folder, &path).map_err(Err)?;
        let content = match content {
            Some(Content::File(directory)) if metadata.kind != Kind::File => return Err(Ok(directory)),
            content => content,
        };
        let media_type = media_type::of(&path);
        let varies = self.options.precompressed && media_type::is_compressible(media_type);
        if varies
            && let Some((path, metadata, content, coding)) = self.find_copy(folder, &path, &metadata, accepted, clock)
        {
            return Ok(Representation { path, metadata, content, media_type, coding: Some(coding), varies });
        }
        let (metadata, content) = match content {
            Some(content) => (metadata, content),
            None => {
                let file = folder.open_beneath(&path).map_err(Err)?;
                (*file.metadata(), Content::File(file))
            }
        };
        Ok(Representation { path, metadata, content, media_type, coding: None, varies })
    }

    /// Opens the compressed copy of a file that the client prefers, and returns it with its coding. `now`: nanoseconds.
    pub(crate) fn open_copy(
        &mut self, folder: &mut Folder, path: &[u8], original: &Metadata, accepted: Accepted, now: u64,
    ) -> Option<(OpenFile, &'static str)> {
        if accepted == [None; 2] || self.missing.contains(path, now) {
            return None;
        }
        let open = |name: &[u8]| folder.open_beneath(name);
        let found = find_copy(open, path, original, accepted);
        if found.is_none() {
            self.missing.insert(path, now);
        }
        found
    }

    /// Returns the content of a short response body: the whole file, or one range. Returns `None` if the body must be
    /// sent from the file, if the choice is several ranges or an error, or if the file cannot be read.
    pub(crate) fn load(&mut self, found: &Representation, choice: &Choice, clock: Clock) -> Option<Bytes> {
        let (first, length) = match choice {
            Choice::Whole => (0, found.metadata.size),
            Choice::Parts(parts) => match parts[..] {
                [part] => (part.first, part.length),
                _ => return None,
            },
            Choice::NotModified => return Some(Bytes::new()),
            Choice::Failed | Choice::Unsatisfiable => return None,
        };
        let file = match &found.content {
            Content::Bytes(bytes) => return Some(bytes.slice(first as usize..(first + length) as usize)),
            Content::File(file) => file,
        };
        if self.cache.accepts(&found.metadata, clock.unix) {
            let whole = read(file, 0, found.metadata.size)?;
            self.cache.put(&found.path, &found.metadata, Some(whole.clone()));
            return Some(whole.slice(first as usize..(first + length) as usize));
        }
        if length <= MAX_READ { read(file, first, length) } else { None }
    }

    /// Passes the response fields to `add`, except Content-Length.
    pub(crate) fn each_field(
        &self, found: &Representation, validators: &Validators, choice: &Choice,
        mut add: impl FnMut(&'static [u8], &[u8]),
    ) {
        if found.varies {
            add(b"Vary", b"Accept-Encoding");
        }
        if let Some(value) = &self.options.cache_control {
            add(b"Cache-Control", value);
        }
        add(b"ETag", validators.tag());
        add(b"Last-Modified", validators.date());
        if *choice == Choice::NotModified {
            return;
        }
        add(b"Accept-Ranges", b"bytes");
        if let Some(coding) = found.coding {
            add(b"Content-Encoding", coding.as_bytes());
        }
        if let Choice::Parts(parts) = choice
            && let [part] = parts[..]
        {
            let (last, size) = (part.first + part.length - 1, found.metadata.size);
            let value = format!("bytes {}-{last}/{size}", part.first);
            add(b"Content-Range", value.as_bytes());
        }
        add(b"Content-Type", media_type::with_charset(found.media_type).as_bytes());
    }

    /// Returns the metadata and the content of the file at a path. The content is `None` if only the metadata is
    /// cached.
    fn get(&mut self, folder: &mut Folder, path: &[u8]) -> Result<(Metadata, Option<Content>), Refusal> {
        if let Some(known) = self.cache.metadata(path) {
            match folder.metadata_beneath(path) {
                Ok(metadata) if metadata == *known => {
                    return Ok((metadata, self.cache.content(path).map(Content::Bytes)));
                }
                _ => self.cache.remove(path),
            }
        }
        let file = folder.open_beneath(path)?;
        Ok((*file.metadata(), Some(Content::File(file))))
    }

    /// Returns the compressed copy of a file that the client prefers: its path, metadata, content and coding.
    fn find_copy(
        &mut self, folder: &mut Folder, path: &[u8], original: &Metadata, accepted: Accepted, clock: Clock,
    ) -> Option<(Vec<u8>, Metadata, Content, &'static str)> {
        if accepted == [None; 2] || self.missing.contains(path, clock.now) {
            return None;
        }
        for coding in accepted.into_iter().flatten() {
            let name = path_of(path, coding);
            let Ok((metadata, Some(content))) = self.get(folder, &name) else { continue };
            if is_copy(&metadata, original) {
                // If the metadata is cached, later requests need not open the original to compare it with its copy.
                if self.cache.accepts(original, clock.unix) && self.cache.metadata(path).is_none() {
                    self.cache.put(path, original, None);
                }
                return Some((name, metadata, content, coding));
            }
        }
        self.missing.insert(path, clock.now);
        None
    }
}

impl Representation {
    /// Returns the validators of the representation. `now`: seconds since the Unix epoch.
    pub(crate) fn validators(&self, now: u64) -> Validators {
        Validators::of(&self.metadata, self.coding, now)
    }

    /// Returns the requested file itself, if it was opened for sending.
    pub(crate) fn into_original(self) -> Option<OpenFile> {
        match self {
            Representation { content: Content::File(file), coding: None, .. } => Some(file),
            _ => None,
        }
    }
}

/// Reads a part of a file; `None` if it cannot be read completely.
fn read(file: &OpenFile, first: u64, length: u64) -> Option<Bytes> {
    let length = usize::try_from(length).ok()?;
    let mut bytes = Vec::new();
    let got = read_at(file.descriptor()?, &mut bytes, length, first).ok()?;
    (got == length).then(|| bytes.into())
}
