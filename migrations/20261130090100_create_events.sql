-- Events and metric series.
--
-- Every event takes a board-wide id, in the order it was stored: the id of a server-sent event. A metric event is a row of
-- `open_metrics` until its run has a few thousand of them; then they move into `chunks`, column by column, which keep the
-- ids, so that a replay after any gap gives exactly the same events. All other events stay rows of `events`.

CREATE TABLE event_ids (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    last_id INTEGER NOT NULL CHECK (last_id >= 0)
) STRICT;

INSERT INTO event_ids (only, last_id) VALUES (1, 0);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run_key INTEGER NOT NULL REFERENCES runs (run_key) ON DELETE CASCADE,
    -- NULL for what the board itself did (its changes of state).
    seq INTEGER,
    attempt INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL CHECK (json_valid(body))
) STRICT;

CREATE INDEX events_by_run ON events (run_key, id);

CREATE TABLE open_metrics (
    id INTEGER PRIMARY KEY,
    run_key INTEGER NOT NULL REFERENCES runs (run_key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    step INTEGER NOT NULL,
    epoch REAL,
    -- {name: number or "NaN", "Infinity", "-Infinity"}
    points TEXT NOT NULL CHECK (json_valid(points))
) STRICT;

CREATE INDEX open_metrics_by_run ON open_metrics (run_key, id);

-- Where each attempt's metrics begin: a resumed attempt supersedes the steps from there on.
CREATE TABLE attempts (
    run_key INTEGER NOT NULL REFERENCES runs (run_key) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    first_step INTEGER NOT NULL,
    PRIMARY KEY (run_key, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
    series_key INTEGER PRIMARY KEY AUTOINCREMENT,
    run_key INTEGER NOT NULL REFERENCES runs (run_key) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (run_key, attempt, name)
) STRICT;

-- A few thousand points of one series. Three levels of detail: `summary` (ends, extremes, marks), `thinned` (about a
-- sixteenth of the points) and `points` (all of them, last so that the other columns are read without it).
CREATE TABLE chunks (
    series_key INTEGER NOT NULL REFERENCES series (series_key) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
    first_id INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    first_step INTEGER NOT NULL,
    last_step INTEGER NOT NULL,
    num_points INTEGER NOT NULL CHECK (num_points > 0),
    num_nan INTEGER NOT NULL CHECK (num_nan >= 0),
    -- Over the finite values; NULL where there are none.
    min_value REAL,
    max_value REAL,
    summary BLOB NOT NULL,
    thinned BLOB NOT NULL,
    points BLOB NOT NULL,
    PRIMARY KEY (series_key, ordinal)
) STRICT;

CREATE INDEX chunks_by_last_id ON chunks (last_id, first_id);

-- How far each event file was read, stored together with what was read from it.
CREATE TABLE event_files (
    run_key INTEGER NOT NULL REFERENCES runs (run_key) ON DELETE CASCADE,
    file TEXT NOT NULL,
    offset_bytes INTEGER NOT NULL CHECK (offset_bytes >= 0),
    PRIMARY KEY (run_key, file)
) STRICT, WITHOUT ROWID;
