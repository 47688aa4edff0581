//! Simulated rates for the tests of this folder.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::steady::Interval;

/// Normal values that depend on those before: AR(1) with standard deviation 1.
#[derive(Debug)]
pub struct Noise {
    random: StdRng,
    phi: f64,
    state: f64,
}

impl Noise {
    /// `phi`: lag-1 correlation; 0 gives independent values.
    pub fn new(seed: u64, phi: f64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let state = normal(&mut random);
        Self { random, phi, state }
    }

    pub fn next(&mut self) -> f64 {
        let value = self.state;
        let innovation = (1.0 - self.phi * self.phi).sqrt();
        self.state = self.phi * self.state + innovation * normal(&mut self.random);
        value
    }

    /// Forgets the past, as a new run does.
    pub fn restart(&mut self) {
        self.state = normal(&mut self.random);
    }

    /// 100 ms samples around `level`, with coefficient of variation `cv`.
    pub fn around(&mut self, level: f64, cv: f64, count: usize) -> Vec<Interval> {
        (0..count).map(|_| sample(level * (1.0 + cv * self.next()))).collect()
    }
}

/// 100 ms at a rate.
pub fn sample(rate: f64) -> Interval {
    Interval { seconds: 0.1, bytes: rate.max(0.0) * 0.1 }
}

/// A standard normal value (Box and Muller).
fn normal(random: &mut StdRng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}
