/* Draws from the exponential and the gamma distribution: the same as those of numpy's `default_rng(entropy)`, whose package
   takes longer to load than a small run to evaluate. A seed sequence (as in numpy), PCG64 (O'Neill 2014), the ziggurat of
   256 layers (Marsaglia and Tsang 2000), and rejection for the gamma distribution (Ahrens and Dieter 1974).
   tests/statistics compares them with numpy. */

#include <math.h>
#include <stdint.h>

#define LAYERS 256
#define WHOLE 9007199254740992.0 /* 2^53 */

/* Where each layer ends, from the top down, divided by 2^53; first the width of the lowest one with its tail. A draw is one
   of these times a whole number, so they must be exact; the other numbers of the ziggurat follow from them. */
static const double ends[LAYERS] = {
    0x1.164ec94bf5dc1p-50, 0x1.0589d8b5d4119p-57, 0x1.ad6b2495b4d2bp-57, 0x1.19335a95b8dbap-56,
    0x1.522e6e54a2a73p-56, 0x1.85090fbc27a80p-56, 0x1.b38d1ef79b7ccp-56, 0x1.decd8b76dbd98p-56,
    0x1.03bf049c65c3cp-55, 0x1.170db24d6f670p-55, 0x1.2980290da2633p-55, 0x1.3b388fe3d6ecap-55,
    0x1.4c515c60bfe21p-55, 0x1.5cdf89d024ac3p-55, 0x1.6cf40f0a72bbdp-55, 0x1.7c9cdda17d019p-55,
    0x1.8be5954d3606fp-55, 0x1.9ad80552237d2p-55, 0x1.a97c8be5d5203p-55, 0x1.b7da5dddda3c4p-55,
    0x1.c5f7bd78c3f89p-55, 0x1.d3da24df17c36p-55, 0x1.e186678f1735ap-55, 0x1.ef00ccf5f4faap-55,
    0x1.fc4d25d683209p-55, 0x1.04b76ed6a7558p-54, 0x1.0b348479b80fcp-54, 0x1.119f38749f5afp-54,
    0x1.17f8ceb4bdfa0p-54, 0x1.1e426e93e49e7p-54, 0x1.247d26538ff2ep-54, 0x1.2aa9ee123680bp-54,
    0x1.30c9aa526da4bp-54, 0x1.36dd2e26d8202p-54, 0x1.3ce53d12162a0p-54, 0x1.42e28ca706748p-54,
    0x1.48d5c5f35e712p-54, 0x1.4ebf86bcd0b93p-54, 0x1.54a0629786f4dp-54, 0x1.5a78e3db8befdp-54,
    0x1.60498c7dd2ecfp-54, 0x1.6612d6d0c68e0p-54, 0x1.6bd5362faa944p-54, 0x1.71911797990bbp-54,
    0x1.7746e23077973p-54, 0x1.7cf6f7c7e8172p-54, 0x1.82a1b53fed599p-54, 0x1.884772f2be1ecp-54,
    0x1.8de8850d0c52ap-54, 0x1.93853bdfda244p-54, 0x1.991de42ad1338p-54, 0x1.9eb2c75ff03bfp-54,
    0x1.a4442be14884ap-54, 0x1.a9d255396d261p-54, 0x1.af5d844f224c9p-54, 0x1.b4e5f794c979bp-54,
    0x1.ba6beb33f8f89p-54, 0x1.bfef99359fe99p-54, 0x1.c57139a70d29fp-54, 0x1.caf102bc25adbp-54,
    0x1.d06f28ef0e6fbp-54, 0x1.d5ebdf1d86b8dp-54, 0x1.db6756a429057p-54, 0x1.e0e1bf77c31fep-54,
    0x1.e65b483cf1044p-54, 0x1.ebd41e5e21b62p-54, 0x1.f14c6e202949fp-54, 0x1.f6c462b57feb5p-54,
    0x1.fc3c26504a9a1p-54, 0x1.00d9f119a3cd9p-53, 0x1.0395df60db162p-53, 0x1.0651f1c7276f8p-53,
    0x1.090e3bb4b0072p-53, 0x1.0bcad03710137p-53, 0x1.0e87c207a2f66p-53, 0x1.114523917ac15p-53,
    0x1.140306f707dbep-53, 0x1.16c17e1777ffbp-53, 0x1.19809a93d2396p-53, 0x1.1c406dd3d5283p-53,
    0x1.1f01090a9c4e2p-53, 0x1.21c27d3b10e05p-53, 0x1.2484db3c2a329p-53, 0x1.274833bd0189fp-53,
    0x1.2a0c9748bcdaap-53, 0x1.2cd2164a53b5dp-53, 0x1.2f98c11031721p-53, 0x1.3260a7cfb7611p-53,
    0x1.3529daa8a1ba1p-53, 0x1.37f469a851af0p-53, 0x1.3ac064ccfeffcp-53, 0x1.3d8ddc08d336dp-53,
    0x1.405cdf44f09c4p-53, 0x1.432d7e6466cd0p-53, 0x1.45ffc94716ca7p-53, 0x1.48d3cfcc883c4p-53,
    0x1.4ba9a1d6b18a4p-53, 0x1.4e814f4cb45eap-53, 0x1.515ae81d900fbp-53, 0x1.54367c42cb5f8p-53,
    0x1.57141bc316f27p-53, 0x1.59f3d6b4e9cf9p-53, 0x1.5cd5bd4119335p-53, 0x1.5fb9dfa56cf26p-53,
    0x1.62a04e3731a2ep-53, 0x1.65891965c9b8cp-53, 0x1.687451bd3ebeep-53, 0x1.6b6207e8d3cdfp-53,
    0x1.6e524cb59a608p-53, 0x1.714531150a9fbp-53, 0x1.743ac61fa041cp-53, 0x1.77331d177d130p-53,
    0x1.7a2e476b1240ap-53, 0x1.7d2c56b7d17f7p-53, 0x1.802d5ccce7277p-53, 0x1.83316badfe62ap-53,
    0x1.86389596108e7p-53, 0x1.8942ecfa40f54p-53, 0x1.8c50848cc6094p-53, 0x1.8f616f3fe1513p-53,
    0x1.9275c048e73e1p-53, 0x1.958d8b235828ap-53, 0x1.98a8e3940bbf4p-53, 0x1.9bc7ddac7035dp-53,
    0x1.9eea8dcdde951p-53, 0x1.a21108ad0592dp-53, 0x1.a53b63556c690p-53, 0x1.a869b32d0f30fp-53,
    0x1.ab9c0df81657ap-53, 0x1.aed289dcaacffp-53, 0x1.b20d3d66e8bb5p-53, 0x1.b54c3f8cf2542p-53,
    0x1.b88fa7b324fb6p-53, 0x1.bbd78db072610p-53, 0x1.bf2409d2dfd85p-53, 0x1.c27534e42e02dp-53,
    0x1.c5cb282eab1a4p-53, 0x1.c925fd82323fbp-53, 0x1.cc85cf395a56cp-53, 0x1.cfeab83ed7180p-53,
    0x1.d354d4130f2adp-53, 0x1.d6c43ed1ea3fep-53, 0x1.da391538da50ap-53, 0x1.ddb374ad2357fp-53,
    0x1.e1337b426509bp-53, 0x1.e4b947c16a452p-53, 0x1.e844f9af4237fp-53, 0x1.ebd6b154a7678p-53,
    0x1.ef6e8fc5b9168p-53, 0x1.f30cb6ea0bc7fp-53, 0x1.f6b1498515ed0p-53, 0x1.fa5c6b3efe1e5p-53,
    0x1.fe0e40add09d8p-53, 0x1.00e377af911d4p-52, 0x1.02c34ef11391bp-52, 0x1.04a6b9e9224a3p-52,
    0x1.068dccf1126dbp-52, 0x1.08789cf3aad0fp-52, 0x1.0a673f733c819p-52, 0x1.0c59ca900946fp-52,
    0x1.0e50550efcfb7p-52, 0x1.104af660befcep-52, 0x1.1249c6a92154ap-52, 0x1.144cdec6f3a2bp-52,
    0x1.1654585c404c1p-52, 0x1.18604dd6fae9ep-52, 0x1.1a70da7a27820p-52, 0x1.1c861a6782a5ap-52,
    0x1.1ea02aa9b3370p-52, 0x1.20bf293f0f4a2p-52, 0x1.22e33524fe550p-52, 0x1.250c6e6403bbap-52,
    0x1.273af61c7daa6p-52, 0x1.296eee942532bp-52, 0x1.2ba87b445db51p-52, 0x1.2de7c0e962d70p-52,
    0x1.302ce59265965p-52, 0x1.327810b2aa7d0p-52, 0x1.34c96b33bc965p-52, 0x1.37211f88ca856p-52,
    0x1.397f59c345143p-52, 0x1.3be447a8d8b83p-52, 0x1.3e5018cadded0p-52, 0x1.40c2fe9f5eeadp-52,
    0x1.433d2c9bd42f8p-52, 0x1.45bed851bc92cp-52, 0x1.4848398d39432p-52, 0x1.4ad98a75da14cp-52,
    0x1.4d7307b1cb127p-52, 0x1.5014f08b99508p-52, 0x1.52bf871acaab2p-52, 0x1.5573106f8a75ap-52,
    0x1.582fd4c1b4461p-52, 0x1.5af61fa38e107p-52, 0x1.5dc640388bd9ep-52, 0x1.60a0897081879p-52,
    0x1.63855247b2e94p-52, 0x1.6674f60c3f432p-52, 0x1.696fd4a9748eep-52, 0x1.6c7652f9a7b1ep-52,
    0x1.6f88db1f42507p-52, 0x1.72a7dce5cd218p-52, 0x1.75d3ce2bd71c3p-52, 0x1.790d2b56b71f9p-52,
    0x1.7c5477d1476d3p-52, 0x1.7faa3e96e1412p-52, 0x1.830f12cc0bec3p-52, 0x1.8683906687342p-52,
    0x1.8a085ce695babp-52, 0x1.8d9e2823b3695p-52, 0x1.9145ad2f37544p-52, 0x1.94ffb34fc2a0ep-52,
    0x1.98cd0f18d1ad8p-52, 0x1.9caea3a24d9eap-52, 0x1.a0a563e49f178p-52, 0x1.a4b2543e84c3bp-52,
    0x1.a8d68c2ad86eap-52, 0x1.ad13382d845c4p-52, 0x1.b1699c003b60ap-52, 0x1.b5db15091ea0fp-52,
    0x1.ba691d276da5ep-52, 0x1.bf154de4bef77p-52, 0x1.c3e1641c2e0a7p-52, 0x1.c8cf442c8c8f4p-52,
    0x1.cde0fecf2a97fp-52, 0x1.d318d6b2738c5p-52, 0x1.d87946fec3becp-52, 0x1.de050af4ef19fp-52,
    0x1.e3bf26e190960p-52, 0x1.e9aaf2af383c1p-52, 0x1.efcc26750ea4ap-52, 0x1.f626e9791f7a7p-52,
    0x1.fcbfe43f6c6e5p-52, 0x1.01ce2b362ec2ep-51, 0x1.056118bf58eefp-51, 0x1.091c1cdcba54ep-51,
    0x1.0d031785d48a0p-51, 0x1.111a8034392a6p-51, 0x1.156786775442ap-51, 0x1.19f03bcb3c2d6p-51,
    0x1.1ebbca0c9fa7cp-51, 0x1.23d2bb659919fp-51, 0x1.293f5ae49aaa5p-51, 0x1.2f0e38a4411f0p-51,
    0x1.354ee27ccf75ep-51, 0x1.3c14ec7c8b861p-51, 0x1.4379766e41362p-51, 0x1.4b9d7cd4751d1p-51,
    0x1.54ad83ccf73f6p-51, 0x1.5ee7ae17313d2p-51, 0x1.6aa676d4bbf72p-51, 0x1.78750d6eac62fp-51,
    0x1.8939fe6f2ed19p-51, 0x1.9e9dc0d487b85p-51, 0x1.bc39e51da71fcp-51, 0x1.ec9d9297ebb83p-51
};

/* As in numpy: four words of 32 bits stand for the entropy, whatever its length. */
static uint32_t hashed(uint32_t value, uint32_t *constant, uint32_t factor) {
    value ^= *constant;
    *constant *= factor;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mixed(uint32_t one, uint32_t other) {
    uint32_t both = 0xca01f9ddu * one - 0x4973f715u * other;
    return both ^ both >> 16;
}

#ifdef __SIZEOF_INT128__

typedef unsigned __int128 word128;

static word128 joined(uint64_t high, uint64_t low) { return (word128)high << 64 | low; }

typedef struct {
    word128 state, increment;
    double height[LAYERS];   /* of the density where each layer ends */
    uint64_t inside[LAYERS]; /* below this, a point of the layer is under the density for certain */
} stream;

static word128 stepped(word128 state, word128 increment) {
    return state * joined(0x2360ed051fc65da4ull, 0x4385df649fccf645ull) + increment;
}

static void opened(stream *draws, const uint64_t *state) {
    draws->state = joined(state[0], state[1]), draws->increment = joined(state[2], state[3]);
    for (int at = 0; at < LAYERS; at++) {
        draws->height[at] = at ? exp(-ends[at] * WHOLE) : 1.0;
        draws->inside[at] = at == 1 ? 0 : (uint64_t)(ends[at ? at - 1 : LAYERS - 1] / ends[at] * WHOLE);
    }
}

static void closed(const stream *draws, uint64_t *state) {
    state[0] = (uint64_t)(draws->state >> 64), state[1] = (uint64_t)draws->state;
}

static uint64_t next(stream *draws) {
    draws->state = stepped(draws->state, draws->increment);
    uint64_t both = (uint64_t)(draws->state >> 64) ^ (uint64_t)draws->state;
    unsigned turn = (unsigned)(draws->state >> 122);
    return both >> turn | both << (-turn & 63);
}

static double uniform(stream *draws) { return (double)(next(draws) >> 11) / WHOLE; }

static double exponential(stream *draws) {
    for (;;) {
        uint64_t bits = next(draws) >> 3;
        unsigned layer = bits & (LAYERS - 1);
        bits >>= 8;
        double draw = (double)bits * ends[layer];
        if (bits < draws->inside[layer]) return draw;
        if (layer == 0) return ends[LAYERS - 1] * WHOLE - log1p(-uniform(draws));
        double low = draws->height[layer], high = draws->height[layer - 1];
        if ((high - low) * uniform(draws) + low < exp(-draw)) return draw;
    }
}

/* For shapes under 1. */
static double gamma_under_1(stream *draws, double shape) {
    for (;;) {
        double place = uniform(draws), limit = exponential(draws);
        if (place <= 1.0 - shape) {
            double draw = pow(place, 1.0 / shape);
            if (draw <= limit) return draw;
        } else {
            double rest = -log((1.0 - place) / shape), draw = pow(1.0 - shape + shape * rest, 1.0 / shape);
            if (draw <= limit + rest) return draw;
        }
    }
}

/* The state (state and increment, high words first) for an entropy of `count` words. */
int64_t karat_seed(const uint32_t *entropy, int64_t count, uint64_t *state) {
    uint32_t pool[4], constant = 0x43b0d7e5u;
    for (int at = 0; at < 4; at++) pool[at] = hashed(at < count ? entropy[at] : 0, &constant, 0x931e8875u);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (from != to) pool[to] = mixed(pool[to], hashed(pool[from], &constant, 0x931e8875u));
    for (int64_t from = 4; from < count; from++)
        for (int to = 0; to < 4; to++) pool[to] = mixed(pool[to], hashed(entropy[from], &constant, 0x931e8875u));
    uint64_t seeds[4];
    constant = 0x8b51f9ddu;
    for (int at = 0; at < 4; at++) {
        uint32_t low = hashed(pool[2 * at % 4], &constant, 0x58f38dedu);
        seeds[at] = low | (uint64_t)hashed(pool[(2 * at + 1) % 4], &constant, 0x58f38dedu) << 32;
    }
    word128 increment = joined(seeds[2], seeds[3]) << 1 | 1;
    word128 first = stepped(stepped(0, increment) + joined(seeds[0], seeds[1]), increment);
    state[0] = (uint64_t)(first >> 64), state[1] = (uint64_t)first;
    state[2] = (uint64_t)(increment >> 64), state[3] = (uint64_t)increment;
    return 0;
}

/* The next `count` draws. */
void karat_exponential(uint64_t *state, int64_t count, double *found) {
    stream draws;
    opened(&draws, state);
    for (int64_t at = 0; at < count; at++) found[at] = exponential(&draws);
    closed(&draws, state);
}

void karat_gamma(uint64_t *state, double shape, int64_t count, double *found) {
    stream draws;
    opened(&draws, state);
    for (int64_t at = 0; at < count; at++) found[at] = gamma_under_1(&draws, shape);
    closed(&draws, state);
}

#else /* numpy draws */

int64_t karat_seed(const uint32_t *entropy, int64_t count, uint64_t *state) { return -1; }

void karat_exponential(uint64_t *state, int64_t count, double *found) {}

void karat_gamma(uint64_t *state, double shape, int64_t count, double *found) {}

#endif
