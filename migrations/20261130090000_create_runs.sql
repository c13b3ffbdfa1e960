-- Runs, what they were given, and what marks them.
-- Times are integer milliseconds since 1970. A run has two keys: `id`, the UUIDv7 that the world sees,
-- and `run_key`, a small integer that the other tables carry.

CREATE TABLE runs (
    run_key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE CHECK (length(id) = 36),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    state TEXT NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'starting', 'running', 'stopping', 'finished', 'failed', 'stopped')),
    -- What is trained, in the words of the configuration.
    stage TEXT NOT NULL,
    backend TEXT NOT NULL,
    finetuning_type TEXT NOT NULL,
    model TEXT NOT NULL,
    datasets TEXT NOT NULL DEFAULT '[]' CHECK (json_type(datasets) = 'array'),
    -- When.
    created_ms INTEGER NOT NULL,
    queued_ms INTEGER NOT NULL,
    started_ms INTEGER,
    ended_ms INTEGER,
    stop_requested_ms INTEGER,
    -- The process: the launcher's pid and its start time in clock ticks, which together name it for good.
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    resume_from TEXT,
    pid INTEGER,
    pid_start INTEGER,
    -- How it ended.
    exit_code INTEGER,
    exit_class TEXT,
    message TEXT,
    hint TEXT,
    -- How far it is.
    phase TEXT,
    phase_done INTEGER,
    phase_total INTEGER,
    steps_done INTEGER NOT NULL DEFAULT 0,
    steps_total INTEGER,
    epoch REAL,
    -- SQLite keeps no NaN in a REAL: the value is then NULL and the mark beside it 1.
    last_loss REAL,
    last_loss_is_nan INTEGER NOT NULL DEFAULT 0 CHECK (last_loss_is_nan IN (0, 1)),
    last_eval_loss REAL,
    last_eval_loss_is_nan INTEGER NOT NULL DEFAULT 0 CHECK (last_eval_loss_is_nan IN (0, 1)),
    sparkline BLOB,
    -- How far the events are stored: the highest `seq`, and the metric rows that no chunk holds yet.
    last_seq INTEGER NOT NULL DEFAULT 0,
    num_open INTEGER NOT NULL DEFAULT 0 CHECK (num_open >= 0),
    notes TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX runs_by_state ON runs (state, run_key);

-- The texts of a configuration, apart from `runs` so that a list reads only small rows.
CREATE TABLE run_configs (
    run_key INTEGER PRIMARY KEY REFERENCES runs (run_key) ON DELETE CASCADE,
    input_yaml TEXT NOT NULL,
    config_yaml TEXT NOT NULL,
    config_hash TEXT NOT NULL
) STRICT;

CREATE TABLE run_tags (
    run_key INTEGER NOT NULL REFERENCES runs (run_key) ON DELETE CASCADE,
    tag TEXT NOT NULL CHECK (length(tag) BETWEEN 1 AND 60),
    PRIMARY KEY (run_key, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_tags_by_tag ON run_tags (tag, run_key);

-- A deleted run leaves its id, so that a late event or an import does not bring it back.
CREATE TABLE deleted_runs (
    id TEXT PRIMARY KEY CHECK (length(id) = 36),
    name TEXT NOT NULL,
    deleted_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
