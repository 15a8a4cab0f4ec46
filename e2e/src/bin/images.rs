//! Writes the images that test clusters run, from programs that were built before: `make images`.
//!
//! ```text
//! images LOCKSTEP_PROGRAM GO_APPLICATION FOLDER
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use lockstep_e2e::cluster::tool;
use lockstep_e2e::image::Image;

/// More than this and pulling it takes longer than starting it.
const LARGEST_LOCKSTEP: u64 = 25 << 20;

/// What a pod's sandbox runs: nothing, until it is told to end.
const PAUSE: &str = "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait $!; done";

/// Parts of Python's library that no application of ours needs.
const NOT_NEEDED: [&str; 10] = [
    "config-",
    "__pycache__",
    "test",
    "turtledemo",
    "site-packages",
    "dist-packages",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
];

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [lockstep, go_application, folder] = arguments.as_slice() else {
        return fail("usage: images LOCKSTEP_PROGRAM GO_APPLICATION FOLDER");
    };
    match write_all(lockstep, go_application, folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(text: &str) -> ExitCode {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "images: {text}"));
    ExitCode::FAILURE
}

fn write_all(lockstep: &Path, go_application: &Path, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let busybox = Path::new("/bin/busybox");
    let image = Image::new("lockstep.test/lockstep:1")
        .file(lockstep, "/lockstep")
        .libraries_of(lockstep)? // none in a static program
        .entrypoint(&["/lockstep"]);
    let size = write("lockstep", &image, folder)?;
    let nats = tool("nats-server").map_err(io::Error::other)?;
    let image = Image::new("lockstep.test/nats:1")
        .file(&nats, "/nats-server")
        .entrypoint(&["/nats-server"]);
    write("nats", &image, folder)?;
    let image = Image::new("lockstep.test/pause:1")
        .file(busybox, "/bin/busybox")
        .entrypoint(&["/bin/busybox", "sh", "-c", PAUSE]);
    write("pause", &image, folder)?;
    write("python", &python(busybox)?, folder)?;
    let image = Image::new("lockstep.test/app-go:1")
        .file(go_application, "/app")
        .libraries_of(go_application)?
        .entrypoint(&["/app"]);
    write("go", &image, folder)?;
    if size > LARGEST_LOCKSTEP {
        let text = format!("the image of lockstep has {} MiB, more than 25", size >> 20);
        return Err(io::Error::other(text));
    }
    Ok(())
}

fn write(name: &str, image: &Image, folder: &Path) -> io::Result<u64> {
    use std::io::Write;
    let written = image.write(&folder.join(format!("{name}.tar")))?;
    let (mib, digest) = (written.size >> 20, &written.digest[..19]);
    writeln!(std::io::stdout(), "{name}: {mib} MiB, {digest}")?;
    Ok(written.size)
}

/// This machine's Python with its standard library, the test application, and a shell.
fn python(busybox: &Path) -> io::Result<Image> {
    const WHERE: &str = "import sys, sysconfig; print(sys.executable); \
         print(sysconfig.get_path('stdlib')); print(sys.base_prefix)";
    let said = Command::new("python3").args(["-c", WHERE]).output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let [program, library, prefix] = lines[..] else {
        return Err(io::Error::other("python3 does not say where it is"));
    };
    let program = std::fs::canonicalize(program)?;
    let mut image = Image::new("lockstep.test/app-python:1")
        .file(&program, "/usr/bin/python3")
        .file(busybox, "/bin/busybox")
        .file(busybox, "/bin/sh")
        .env("PYTHONHOME", prefix)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .folder(Path::new(library), library, &NOT_NEEDED)?
        .libraries_of(&program)?;
    for entry in std::fs::read_dir(Path::new(library).join("lib-dynload"))? {
        image = image.libraries_of(&entry?.path())?;
    }
    let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("app/app.py");
    Ok(image
        .file(&app, "/app.py")
        .entrypoint(&["/usr/bin/python3", "-u", "/app.py"]))
}
