//! Probes for whoever keeps the board running.

/// Says that the process answers.
#[utoipa::path(get, path = "/healthz", tag = "probes", responses((status = OK, description = "The process answers.", body = str)))]
pub async fn show_health() -> &'static str {
    "ok\n"
}
