//! From a command line to a run directory that ranks can work in, and from their end to `exit.json`.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::ExitCode as Code;

use anyhow::{Context as _, Result};
use run_protocol::events::EventWriter;
use run_protocol::exit::replace_file;
use run_protocol::{
    AcceptedKey, ExitCode, ExitRecord, LauncherRecord, Parsed, RunConfig, RunDir, Stage,
};
use trainer_engine::RankOptions;

use crate::cli::RunArgs;
use crate::ending::{exit_record, print_ending};
use crate::environment::num_cores;
use crate::failure::{Failure, Refusal};
use crate::launch::{Plan, run_ranks};
use crate::mirror::Mirror;
use crate::rank;
use crate::resume::{keep_inputs, resume_from};

/// Bytes kept back on the disk, so that a run that fills it can still say so.
const RESERVE_BYTES: usize = 64 * 1024;

/// Elements of an MLP matrix below which one thread is faster than several.
const TINY_PRODUCT: i64 = 128 * 1024;

/// Returns the path of the file whose room is kept for the last words.
pub(crate) fn reserve_path(run_dir: &RunDir) -> PathBuf {
    run_dir.root().join(".reserve")
}

/// Trains: as the launcher, or as the rank that another launcher started.
pub(crate) fn train(arguments: &RunArgs, stage: Option<Stage>) -> Result<Code> {
    let is_rank = std::env::var_os("RANK").is_some() && std::env::var_os("WORLD_SIZE").is_some();
    let run = match prepare(arguments, stage) {
        Ok(run) => run,
        Err(error) => return Ok(refuse(arguments, &error)),
    };
    if is_rank {
        let options = RankOptions {
            resume: run.resume,
            accepted_without_effect: run.accepted,
            source_date_epoch: std::env::var("SOURCE_DATE_EPOCH").ok(),
            num_threads: trainer_torch_ext::num_threads(),
        };
        return Ok(rank::run_in(&run.dir, &options, run.attempt));
    }
    let code = launch(&run)?;
    Ok(code)
}

/// A run that may start.
struct Run {
    dir: RunDir,
    resume: Option<PathBuf>,
    accepted: Vec<AcceptedKey>,
    attempt: u32,
    /// Threads of a rank.
    num_threads: usize,
    /// Whether a person watches this terminal.
    is_watched: bool,
    /// Holds the folder until the run has ended.
    _lock: File,
}

fn prepare(arguments: &RunArgs, stage: Option<Stage>) -> Result<Run> {
    let text = fs::read_to_string(&arguments.config).map_err(|error| {
        Refusal::error(
            format!("cannot read `{}`: {error}", arguments.config.display()),
            "give the path of a YAML file",
        )
    })?;
    let mut parsed = parse(&text, &arguments.overrides, stage)?;
    let base = std::env::current_dir().context("cannot tell the current directory")?;
    parsed.config.resolve_paths(&base);
    let facts = run_protocol::Facts {
        world_size: Some(num_ranks()?),
        num_examples: None,
    };
    for warning in parsed.check_with(&facts).into_result()? {
        tracing::warn!(
            field = warning.field,
            hint = warning.hint,
            "{}",
            warning.message
        );
    }
    let Parsed {
        config,
        accepted_without_effect,
        ..
    } = parsed;
    let root = run_root(arguments, &config, &base)?;
    keep_inputs(&root, &config)?;
    let dir = make_run_dir(&root)?;
    let lock = lock(&dir)?;
    let resume = resume_from(arguments, &config, &dir, &base)?;
    let accepted = given_accepted(arguments, &dir, accepted_without_effect);
    if !is_same_file(&arguments.config, &dir.config()) {
        write(&dir.training_args(), &text)?;
        write(&dir.config(), &config.to_yaml())?;
    }
    remove(&dir.exit())?;
    let attempt = attempt(&dir)?;
    reserve(&dir)?;
    let is_watched =
        arguments.run_dir.is_none() || std::io::IsTerminal::is_terminal(&std::io::stderr());
    let num_threads = num_threads(&config);
    Ok(Run {
        dir,
        resume,
        accepted,
        attempt,
        num_threads,
        is_watched,
        _lock: lock,
    })
}

/// Makes the folder of the run; one that cannot be made is a wrong setting, unless the disk is full.
fn make_run_dir(root: &Path) -> Result<RunDir> {
    RunDir::create(root).map_err(|error| {
        let what = format!("cannot make the folder `{}`", root.display());
        if run_protocol::events::is_disk_full(&error) {
            return anyhow::Error::new(error).context(what);
        }
        Refusal::error(
            format!("{what}: {error}"),
            "choose an `output_dir` that can be made and written to",
        )
    })
}

/// Takes the folder for this launcher alone, so that no second one writes into the same event file.
///
/// The system gives it back when the process ends, however it ends.
fn lock(dir: &RunDir) -> Result<File> {
    let root = dir.root();
    let folder =
        File::open(root).with_context(|| format!("cannot open the folder `{}`", root.display()))?;
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Refusal::error(
            format!("another trainer is at work in `{}`", root.display()),
            "wait for its end, stop it, or choose another `output_dir`",
        )),
        // There are network file systems without locks; on those, nobody checks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(folder),
    }
}

/// Keeps room for the last words.
fn reserve(dir: &RunDir) -> Result<()> {
    let path = reserve_path(dir);
    fs::write(&path, vec![b' '; RESERVE_BYTES])
        .inspect_err(|_| drop(fs::remove_file(&path)))
        .context("cannot write into the run directory")
}

/// Returns the threads of a rank: all cores, but one for a model so small that handing out its work takes longer.
fn num_threads(config: &RunConfig) -> usize {
    let is_tiny = trainer_models::read_config(&config.model.model_name_or_path)
        .is_ok_and(|model| model.hidden_size * model.intermediate_size < TINY_PRODUCT);
    if is_tiny { 1 } else { num_cores() }
}

/// Parses the file; the command's stage must not contradict it.
fn parse(text: &str, overrides: &[String], stage: Option<Stage>) -> Result<Parsed> {
    let parsed = RunConfig::from_yaml(text, overrides)?;
    let Some(stage) = stage.filter(|stage| *stage != parsed.config.stage) else {
        return Ok(parsed);
    };
    if parsed.written_as.contains_key("stage") {
        return Err(Refusal::error(
            format!(
                "the command is `{stage}`, but the configuration says `stage: {}`",
                parsed.config.stage
            ),
            "use `trainer train`, which takes the stage from the file",
        ));
    }
    let mut overrides = overrides.to_vec();
    overrides.push(format!("stage={stage}"));
    Ok(RunConfig::from_yaml(text, &overrides)?)
}

/// Returns the folder that the run writes into.
fn run_root(arguments: &RunArgs, config: &RunConfig, base: &Path) -> Result<PathBuf> {
    if let Some(dir) = &arguments.run_dir {
        return Ok(base.join(dir));
    }
    config.training.output_dir.clone().ok_or_else(|| {
        Refusal::error(
            "output_dir: is missing",
            "say where the results go, in the file or as `output_dir=DIR`",
        )
    })
}

/// Returns the ranks of this machine; several of them are refused by the check.
fn num_ranks() -> Result<usize> {
    for name in ["NPROC_PER_NODE", "NNODES", "WORLD_SIZE"] {
        let Ok(value) = std::env::var(name) else {
            continue;
        };
        match value.parse::<usize>() {
            Ok(1) => {}
            Ok(_) => {
                return Err(Refusal::error(
                    format!(
                        "{name} is {value}, and training on several ranks arrives with the distributed engine"
                    ),
                    format!("leave {name} out"),
                ));
            }
            Err(_) => {
                return Err(Refusal::error(
                    format!("{name} is `{value}`, expected a number"),
                    "leave it out",
                ));
            }
        }
    }
    Ok(1)
}

/// Returns the keys without effect, also where the canonical file no longer has them.
fn given_accepted(arguments: &RunArgs, dir: &RunDir, parsed: Vec<AcceptedKey>) -> Vec<AcceptedKey> {
    if !is_same_file(&arguments.config, &dir.config()) {
        return parsed;
    }
    let original = fs::read_to_string(dir.training_args()).ok();
    original
        .and_then(|text| RunConfig::from_yaml(&text, &[]).ok())
        .map_or(parsed, |original| original.accepted_without_effect)
}

/// Returns the number of this attempt: the board's where it keeps one, else the next after the events'.
fn attempt(dir: &RunDir) -> Result<u32> {
    let next = EventWriter::open(dir.events())?.attempt();
    let told = LauncherRecord::read(&dir.launcher())
        .ok()
        .flatten()
        .map_or(0, |record| record.attempt);
    Ok(next.max(told))
}

fn launch(run: &Run) -> Result<Code> {
    let plan = Plan {
        run_dir: run.dir.root().to_owned(),
        logs: vec![run.dir.rank_log(0)],
        arguments: rank_arguments(run)?,
        num_threads: run.num_threads,
    };
    let offset = fs::metadata(run.dir.events()).map_or(0, |file| file.len());
    let mirror = run.is_watched.then(|| Mirror::start(run.dir.rank_log(0)));
    let ended = run_ranks(&plan);
    drop(mirror);
    let record = match ended {
        Ok(ended) => exit_record(&run.dir, offset, run.attempt, &ended),
        Err(error) => record_of(&Failure::of(&error), run.attempt),
    };
    remove(&reserve_path(&run.dir))?;
    let written = record.write(&run.dir.exit());
    print_ending(&run.dir, &record);
    written.context("cannot write exit.json")?;
    Ok(Code::from(
        record.exit_code().unwrap_or(ExitCode::Internal).code(),
    ))
}

fn rank_arguments(run: &Run) -> Result<Vec<String>> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Refusal::error(
                format!("the path `{}` is not UTF-8", path.display()),
                "choose another folder",
            )
        })
    };
    let mut arguments = vec![
        "rank".to_owned(),
        text(run.dir.root())?,
        format!("--attempt={}", run.attempt),
        format!("--launcher={}", std::process::id()),
    ];
    if let Some(checkpoint) = &run.resume {
        arguments.push(format!("--resume={}", text(checkpoint)?));
    }
    if !run.accepted.is_empty() {
        arguments.push(format!(
            "--accepted={}",
            serde_json::to_string(&run.accepted)?
        ));
    }
    Ok(arguments)
}

/// Prints why the run may not start; a board that prepared the folder finds it in `exit.json`, too.
fn refuse(arguments: &RunArgs, error: &anyhow::Error) -> Code {
    let failure = Failure::of(error);
    failure.print();
    if let Some(root) = arguments.run_dir.as_ref().filter(|root| root.is_dir()) {
        let dir = RunDir::new(root);
        let Ok(_lock) = lock(&dir) else {
            // The folder is that of a living run.
            return Code::from(failure.code.code());
        };
        drop(fs::remove_file(reserve_path(&dir)));
        let attempt = attempt(&dir).unwrap_or(1);
        if let Err(error) = record_of(&failure, attempt).write(&dir.exit()) {
            tracing::error!(%error, "cannot write exit.json");
        }
    }
    Code::from(failure.code.code())
}

fn record_of(failure: &Failure, attempt: u32) -> ExitRecord {
    ExitRecord {
        message: Some(failure.message.clone()),
        hint: failure.hint.clone(),
        ..ExitRecord::new(failure.code, attempt)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    replace_file(path, text.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))
}

pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}
