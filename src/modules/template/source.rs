//! The files of templates. A file is read when its template is first used. Under `lio --watch`, the supervisor gets the
//! paths of all files that templates use. Invariant: no file outside the folder is read.

use super::limits::checked;
use crate::file::folder::Folder;
use crate::file::{Kind, Metadata, OpenFile, Refusal, read_at, supervisor_link};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind, TemplateSource};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum size of a file.
const MAX_SIZE: u64 = 16 << 20;

/// The folder of templates.
pub(super) struct Source {
    folder: Arc<Mutex<Folder>>,
    /// The path of the folder in messages, with a final slash.
    shown: String,
    /// Whether changed files are read again.
    reload: bool,
    syntax: SyntaxConfig,
    /// Whether a template is complex.
    is_complex: Arc<AtomicBool>,
}

impl Source {
    pub(super) fn new(
        folder: Folder, shown: String, reload: bool, syntax: SyntaxConfig, is_complex: Arc<AtomicBool>,
    ) -> Source {
        Source { folder: Arc::new(Mutex::new(folder)), shown, reload, syntax, is_complex }
    }

    /// Returns the source of the template `name`, a path below the folder; `None` if there is no such file.
    pub(super) fn load(&self, name: &str) -> Result<Option<TemplateSource>, Error> {
        let mut folder = locked(&self.folder);
        let path = folder.path().join(name);
        match folder.open_beneath(name.as_bytes()) {
            Ok(file) => {
                supervisor_link::report_load(path.as_os_str().as_bytes());
                let text = read(&file).map_err(|problem| cannot_read(name, &problem))?;
                let source = TemplateSource::new(self.check(name, &text)?);
                if !self.reload {
                    return Ok(Some(source));
                }
                let (known, folder, name) = (*file.metadata(), self.folder.clone(), name.to_owned());
                Ok(Some(source.with_uptodate_check(move || is_unchanged(&folder, &name, &known))))
            }
            Err(Refusal::System(error)) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {
                supervisor_link::report_missing(path.as_os_str().as_bytes());
                Ok(None)
            }
            Err(Refusal::System(error)) => Err(cannot_read(name, &error.to_string())),
            Err(Refusal::Word(message, _)) => Err(cannot_read(name, message)),
        }
    }

    /// Returns the source to parse. Refuses the first complex template, because the stack may be too small: the caller
    /// then renders again, with a large stack.
    fn check(&self, name: &str, text: &str) -> Result<String, Error> {
        let checked = checked(text, &self.syntax)
            .map_err(|problem| Error::new(ErrorKind::SyntaxError, format!("{}{name}:{problem}", self.shown)))?;
        if checked.is_complex && !self.is_complex.swap(true, Ordering::Relaxed) {
            return Err(cannot_read(name, "it needs a large stack"));
        }
        Ok(checked.source)
    }
}

fn locked(folder: &Mutex<Folder>) -> MutexGuard<'_, Folder> {
    folder.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_unchanged(folder: &Mutex<Folder>, name: &str, known: &Metadata) -> bool {
    locked(folder).metadata_beneath(name.as_bytes()).is_ok_and(|now| now == *known)
}

fn cannot_read(name: &str, problem: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("cannot read the template '{name}': {problem}"))
}

/// Returns the content of a file. On failure, returns the reason.
fn read(file: &OpenFile) -> Result<String, String> {
    let metadata = file.metadata();
    if metadata.kind != Kind::File {
        return Err("it is not a file".into());
    }
    if metadata.size > MAX_SIZE {
        return Err(format!("it is larger than {} MiB", MAX_SIZE >> 20));
    }
    let descriptor = file.descriptor().ok_or("it is closed")?;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let room = metadata.size as usize + 1;
        read_at(descriptor, &mut bytes, room, before as u64).map_err(|error| error.to_string())?;
        if bytes.len() == before || bytes.len() as u64 > MAX_SIZE {
            break;
        }
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}
