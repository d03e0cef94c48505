//! Checks that only the user and root could have written a project's file or put it where it is.
//!
//! The path is followed as the system does it, name by name and link by link. Each folder on the
//! way must belong to this user or root, and nobody else may write to it. A sticky folder such as
//! `/tmp`, where all may write but only owners may remove and rename, may be passed through, since
//! the next folder is checked as well; it may not hold the file itself. `ssh` demands the same of
//! keys, up to the home folder, where the check ends here too.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::Exposure;
use crate::environment::describe_io_error;
use crate::shell_quote::shell_quote;

/// The user whose files are trusted besides those of root.
pub(super) struct User {
    uid: u32,
    /// The group that has no other member, if there is one: many systems give each user such a
    /// group, with write permission.
    own_group: Option<u32>,
}

impl User {
    /// Returns the user who runs this process.
    pub(super) fn current() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let [accounts, groups] =
            ["/etc/passwd", "/etc/group"].map(|path| fs::read_to_string(path).unwrap_or_default());
        Self { uid, own_group: own_group(uid, &accounts, &groups) }
    }

    /// Checks owner and mode of the opened file.
    pub(super) fn check_file(&self, path: &Path, about: &Metadata) -> Result<(), Exposure> {
        self.check_owner(path, about)?;
        if self.others_can_write(about.mode(), about.gid()) {
            return Err(writable_exposure(path, about.mode(), "it"));
        }
        Ok(())
    }

    fn check_owner(&self, path: &Path, about: &Metadata) -> Result<(), Exposure> {
        if about.uid() == self.uid || about.uid() == 0 {
            return Ok(());
        }
        let what = format!("{} belongs to neither you nor root (uid {})", path.display(), about.uid());
        let next = format!(
            "look at it, and if it is as you want it, make it yours with `sudo chown -h {} {}`",
            self.uid,
            shell_quote(&path.display().to_string())
        );
        Err(Exposure { problem: what, fix: next })
    }

    /// Checks a folder on the path. `holds_file` is set for the folder of the file itself.
    fn check_folder(&self, folder: &Path, holds_file: bool) -> Result<(), Exposure> {
        let about = fs::metadata(folder).map_err(|error| uninspectable_exposure(folder, &error))?;
        self.check_owner(folder, &about)?;
        let is_sticky = about.mode() & 0o1000 != 0;
        if self.others_can_write(about.mode(), about.gid()) && (holds_file || !is_sticky) {
            return Err(writable_exposure(folder, about.mode(), "the folder"));
        }
        Ok(())
    }

    fn others_can_write(&self, mode: u32, group: u32) -> bool {
        mode & 0o002 != 0 || (mode & 0o020 != 0 && self.own_group != Some(group))
    }
}

/// Follows `path` and checks every folder and link on the way. Returns the resolved path and its
/// metadata; the file itself is not checked.
pub(super) fn check_path(
    path: &Path,
    user: &User,
    home: Option<&Path>,
) -> Result<(PathBuf, Metadata), Exposure> {
    let home = home.and_then(|home| home.canonicalize().ok());
    let start = std::path::absolute(path).map_err(|error| uninspectable_exposure(path, &error))?;
    let mut left = path_names(&start);
    let mut place = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            place.pop();
            continue;
        }
        let is_above_home = home.as_ref().is_some_and(|home| home.starts_with(&place) && *home != place);
        if !is_above_home {
            user.check_folder(&place, left.is_empty())?;
        }
        let next = place.join(&name);
        let about = fs::symlink_metadata(&next).map_err(|error| uninspectable_exposure(&next, &error))?;
        if about.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Exposure {
                    problem: format!("{} is behind too many links", path.display()),
                    fix: "give the file itself".to_owned(),
                });
            }
            user.check_owner(&next, &about)?;
            let target = fs::read_link(&next).map_err(|error| uninspectable_exposure(&next, &error))?;
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            for name in path_names(&target).into_iter().rev() {
                left.push_front(name);
            }
        } else if left.is_empty() {
            return Ok((next, about));
        } else {
            place = next;
        }
    }
    Err(Exposure {
        problem: format!("{} is a folder", path.display()),
        fix: "give the file itself".to_owned(),
    })
}

/// Returns the names in a path, including `..`.
fn path_names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Returns the primary group of this user if it has the user's name and no other member.
fn own_group(uid: u32, accounts: &str, groups: &str) -> Option<u32> {
    // name:password:uid:gid:…
    let accounts = || {
        accounts.lines().filter_map(|line| {
            let mut parts = line.split(':');
            let (name, _) = (parts.next()?, parts.next()?);
            Some((name, parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?))
        })
    };
    let (me, _, own) = accounts().find(|(_, id, _)| *id == uid)?;
    if accounts().any(|(_, id, group)| group == own && id != uid) {
        return None;
    }
    // name:password:gid:member,member
    let mut of_group = groups.lines().filter_map(|line| {
        let mut parts = line.split(':');
        let (name, _) = (parts.next()?, parts.next()?);
        (parts.next()?.parse::<u32>().ok()? == own).then_some((name, parts.next()?))
    });
    let alone = |(name, members): (&str, &str)| {
        name == me && members.split(',').all(|member| member.is_empty() || member == me)
    };
    let first = of_group.next().is_some_and(alone);
    (first && of_group.all(alone)).then_some(own)
}

fn writable_exposure(path: &Path, mode: u32, what: &str) -> Exposure {
    let path = path.display();
    Exposure {
        problem: format!("others can write to {path} (mode {:03o})", mode & 0o7777),
        fix: format!(
            "make {what} yours alone with `chmod go-w {}`, and look at the file before you trust it",
            shell_quote(&path.to_string())
        ),
    }
}

fn uninspectable_exposure(path: &Path, error: &std::io::Error) -> Exposure {
    let what = format!("{} cannot be looked at: {}", path.display(), describe_io_error(error));
    Exposure { problem: what, fix: "see to it that you can look at it".to_owned() }
}

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// A folder of this user, with a file in a folder below.
    struct Scene {
        folder: tempfile::TempDir,
        file: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().canonicalize().unwrap().join("project").join("bowline.toml");
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            for (path, mode) in [(file.parent().unwrap(), 0o755), (&*file, 0o644)] {
                set_mode(path, mode);
            }
            Self { folder, file }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(below)
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn checked(path: &Path) -> Result<PathBuf, String> {
        let user = User { own_group: None, ..User::current() };
        let checked = check_path(path, &user, None).and_then(|(place, about)| {
            user.check_file(path, &about)?;
            Ok(place)
        });
        checked.map_err(|found| found.problem)
    }

    #[test]
    fn nobody_else_can_write_the_file_or_a_folder_above_it() {
        let scene = Scene::new();
        let (file, project, above) = (&scene.file, scene.path("project"), scene.path(""));
        assert_eq!(checked(file), Ok(file.clone()));
        let refused = |path: &Path, mode: u32| {
            let before = fs::metadata(path).unwrap().permissions();
            set_mode(path, mode);
            let found = checked(file);
            fs::set_permissions(path, before).unwrap();
            let path = path.display().to_string();
            assert_eq!(
                found,
                Err(format!("others can write to {} (mode {mode:03o})", path.trim_end_matches('/')))
            );
        };
        for mode in [0o664, 0o646, 0o666] {
            refused(file, mode);
        }
        for mode in [0o775, 0o757, 0o777, 0o1777] {
            refused(&project, mode);
        }
        refused(&above, 0o777);
        // In a sticky folder, nobody else can replace the project's folder.
        set_mode(&above, 0o1777);
        assert_eq!(checked(file), Ok(file.clone()));
    }

    #[test]
    fn private_group_may_write() {
        let scene = Scene::new();
        let about = fs::metadata(&scene.file).unwrap();
        let user = User { uid: about.uid(), own_group: Some(about.gid()) };
        assert!(!user.others_can_write(0o664, about.gid()));
        assert!(user.others_can_write(0o664, about.gid() + 1));
        assert!(user.others_can_write(0o666, about.gid()));

        let accounts =
            "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nb:x:7:100::/:/bin/sh\n";
        let own = |groups: &str| own_group(1000, accounts, groups);
        assert_eq!(own("root:x:0:\nme:x:1000:\n"), Some(1000));
        assert_eq!(own("me:x:1000:me\n"), Some(1000));
        for shared in
            ["", "me:x:1000:me,b", "staff:x:1000:", "me:x:1000:\nall:x:1000:b\n", "me:x:1001:\n", "me"]
        {
            assert_eq!(own(shared), None, "{shared}");
        }
        assert_eq!(own_group(1000, &format!("{accounts}c:x:8:1000::/:/bin/sh\n"), "me:x:1000:\n"), None);
        assert_eq!(own_group(1001, accounts, "me:x:1000:\n"), None);
    }

    #[test]
    fn links_are_followed_as_the_system_does() {
        let scene = Scene::new();
        symlink(scene.path("project"), scene.path("absolute")).unwrap();
        symlink("absolute", scene.path("relative")).unwrap();
        symlink("../relative/bowline.toml", scene.path("project").join("again.toml")).unwrap();
        for way in [
            "absolute/bowline.toml",
            "relative/bowline.toml",
            "relative/again.toml",
            "relative/../project/./bowline.toml",
        ] {
            assert_eq!(checked(&scene.path(way)), Ok(scene.file.clone()), "{way}");
        }
        symlink("loop", scene.path("loop")).unwrap();
        assert!(checked(&scene.path("loop/bowline.toml")).unwrap_err().ends_with("is behind too many links"));
        assert!(checked(&scene.path("nothing")).unwrap_err().ends_with("cannot be looked at: no such file"));
        // The folder that holds a link matters as much as the one it leads to.
        fs::create_dir(scene.path("open")).unwrap();
        set_mode(&scene.path("open"), 0o777);
        symlink(scene.path("project"), scene.path("open").join("link")).unwrap();
        let found = checked(&scene.path("open/link/bowline.toml")).unwrap_err();
        assert_eq!(found, format!("others can write to {} (mode 777)", scene.path("open").display()));
    }

    /// Only root can give files away, so this tests something only when root runs it.
    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make a file of somebody else");
            return;
        }
        let scene = Scene::new();
        symlink(scene.path("project"), scene.path("link")).unwrap();
        let through = scene.path("link/bowline.toml");
        for (path, way) in [
            (&scene.file, &scene.file),
            (&scene.path("project"), &scene.file),
            (&scene.path("link"), &through),
        ] {
            let given = |uid| std::os::unix::fs::lchown(path, Some(uid), None).unwrap();
            assert_eq!(checked(way), Ok(scene.file.clone()));
            given(12345);
            let text = format!("{} belongs to neither you nor root (uid 12345)", path.display());
            assert_eq!(checked(way), Err(text));
            given(0);
        }
        // Files of root are trusted for every user.
        chown(&scene.file, Some(0), Some(0)).unwrap();
        let somebody = User { uid: 12345, own_group: None };
        assert!(somebody.check_file(&scene.file, &fs::metadata(&scene.file).unwrap()).is_ok());
    }

    #[test]
    fn folders_above_the_home_are_not_looked_at() {
        let scene = Scene::new();
        let (above, user) = (scene.path(""), User { own_group: None, ..User::current() });
        set_mode(&above, 0o777);
        assert!(check_path(&scene.file, &user, None).is_err());
        let home = scene.path("project");
        assert!(check_path(&scene.file, &user, Some(&home)).is_ok());
        // The home folder itself is checked.
        set_mode(&home, 0o777);
        assert!(check_path(&scene.file, &user, Some(&home)).is_err());
    }
}
