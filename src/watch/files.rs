//! The files that a script has loaded, and which of them have changed since. Folders are watched, not files,
//! since editors save by renaming; what happens there only makes us look, and fingerprints tell the rest.

use super::Event;
use crate::complain;
use lio::watched::fingerprint::Fingerprint;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

/// Links of links that are followed.
const LINKS: usize = 16;

/// The files of the newest process; those of the one before as long as it may have to go on.
pub(super) struct Files {
    files: HashMap<PathBuf, Fingerprint>,
    before: HashMap<PathBuf, Fingerprint>,
    folders: HashMap<PathBuf, Fingerprint>,
    watcher: Option<RecommendedWatcher>,
    /// Folders cannot be watched: files are looked at every now and then.
    polls: bool,
    /// What the folders held when the script failed: a new file may be what it lacked.
    listing: Option<BTreeSet<PathBuf>>,
}

impl Files {
    pub(super) fn new(events: Sender<Event>) -> Files {
        let told = move |event: notify::Result<notify::Event>| {
            let looks = event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_)));
            if !looks {
                let _ = events.send(Event::Disk);
            }
        };
        let watcher = notify::recommended_watcher(told).ok();
        let mut files = Files {
            files: HashMap::new(),
            before: HashMap::new(),
            folders: HashMap::new(),
            polls: false,
            watcher,
            listing: None,
        };
        if files.watcher.is_none() {
            files.fall_back();
        }
        files
    }

    fn fall_back(&mut self) {
        if !self.polls {
            complain(format_args!(
                "lio: the system lets no more folders be watched; looking every second\n"
            ));
        }
        self.polls = true;
    }

    /// How many files there are.
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    /// Whether somebody must look although nothing was told.
    pub(super) fn must_poll(&self) -> bool {
        self.polls || self.folders.values().any(|folder| !folder.exists())
    }

    /// A process loads a file, which was as `fingerprint` tells.
    pub(super) fn add(&mut self, path: PathBuf, fingerprint: Fingerprint) {
        let mut folders = Vec::new();
        folders_of(&path, &mut folders, LINKS);
        let known = self.folders.len();
        for folder in folders {
            if !self.folders.contains_key(&folder) {
                self.watch(folder);
            }
        }
        // Told after the failure: what such a folder holds already is not new.
        if self.listing.is_some() && self.folders.len() > known {
            self.listing = Some(self.list());
        }
        self.before.remove(&path);
        self.files.insert(path, fingerprint);
    }

    fn watch(&mut self, folder: PathBuf) {
        let found = Fingerprint::of(&folder);
        if found.exists()
            && let Some(watcher) = &mut self.watcher
            && watcher.watch(&folder, RecursiveMode::NonRecursive).is_err()
        {
            self.fall_back();
        }
        self.folders.insert(folder, found);
    }

    /// A new process starts: what it loads is what counts, if it comes so far.
    pub(super) fn begin(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.before.extend(files);
        self.listing = None;
    }

    /// The new process runs: what only the one before has loaded does not count any more.
    pub(super) fn settle(&mut self) {
        self.before.clear();
        let mut wanted = Vec::new();
        for path in self.files.keys() {
            folders_of(path, &mut wanted, LINKS);
        }
        let old: Vec<_> = self.folders.keys().cloned().collect();
        for folder in old.into_iter().filter(|folder| !wanted.contains(folder)) {
            self.folders.remove(&folder);
            if let Some(watcher) = &mut self.watcher {
                let _ = watcher.unwatch(&folder);
            }
        }
    }

    /// The new process has failed: files of both count, and files that appear beside them.
    pub(super) fn fail(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.files = std::mem::take(&mut self.before);
        self.files.extend(files);
        self.listing = Some(self.list());
    }

    fn list(&self) -> BTreeSet<PathBuf> {
        let entries = self
            .folders
            .keys()
            .filter_map(|folder| fs::read_dir(folder).ok());
        entries
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "lua"))
            .collect()
    }

    /// The files that have changed since they were loaded. One that is gone has not: its editor may be
    /// about to write it anew, and without it nothing could run.
    pub(super) fn changed(&mut self) -> Vec<PathBuf> {
        self.look_at_folders();
        let mut changed = Vec::new();
        for files in [&mut self.files, &mut self.before] {
            for (path, known) in files {
                let found = Fingerprint::of(path);
                if found != *known && found.exists() {
                    *known = found;
                    changed.push(path.clone());
                }
            }
        }
        if let Some(listing) = &self.listing {
            let found = self.list();
            changed.extend(found.difference(listing).cloned());
            self.listing = Some(found);
        }
        changed.sort();
        changed.dedup();
        changed
    }

    /// A folder that was made anew is another one for the system.
    fn look_at_folders(&mut self) {
        let folders: Vec<_> = self.folders.iter().map(|(k, v)| (k.clone(), *v)).collect();
        for (folder, known) in folders {
            let found = Fingerprint::of(&folder);
            if !found.is_same_file(&known) {
                if let Some(watcher) = &mut self.watcher {
                    let _ = watcher.unwatch(&folder);
                }
                self.watch(folder);
            }
        }
    }
}

/// The folders in which something happens when the file at `path` becomes another one: its own, and those
/// of each symbolic link on the way.
fn folders_of(path: &Path, folders: &mut Vec<PathBuf>, links: usize) {
    let mut note = |folder: &Path| {
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_path_buf());
        }
    };
    if let Some(parent) = path.parent() {
        note(parent);
    }
    for part in path.ancestors() {
        let (Ok(target), Some(parent)) = (fs::read_link(part), part.parent()) else {
            continue;
        };
        note(parent);
        if links > 0 {
            let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
            let mut real = parent.join(target);
            if rest != Path::new("") {
                real.push(rest);
            }
            return folders_of(&real, folders, links - 1);
        }
    }
}
