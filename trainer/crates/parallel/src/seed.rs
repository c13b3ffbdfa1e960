//! Seeds that depend on the place in the run, never on what was drawn before.

/// Returns the seed of dropout for one micro-batch, so that a resumed run draws what an unbroken one does.
pub fn dropout_seed(seed: u64, step: u64, micro_batch: usize, rank: usize) -> u64 {
    [step, micro_batch as u64, rank as u64]
        .into_iter()
        .fold(mix(seed), |state, part| mix(state ^ mix(part)))
}

/// `SplitMix64`'s finalizer: spreads every bit over all.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_own_seed() {
        let mut seeds = std::collections::HashSet::new();
        for step in 0..20 {
            for micro_batch in 0..8 {
                for rank in 0..4 {
                    seeds.insert(dropout_seed(42, step, micro_batch, rank));
                }
            }
        }
        assert_eq!(seeds.len(), 20 * 8 * 4);
        assert_eq!(dropout_seed(1, 2, 3, 4), dropout_seed(1, 2, 3, 4));
    }
}
