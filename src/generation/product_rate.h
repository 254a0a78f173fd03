#pragma once

namespace gpux::generation {

/// Products of bytes per second, each added to a sum of 32 bits, that so many threads compute together: by the
/// instructions of AVX512-VNNI, AVX-VNNI or AVX2, the first of these that the processor has. The best of a few rounds,
/// a tenth of a second in all. 0: of another processor it is not known.
double byte_product_rate(unsigned threads);

}  // namespace gpux::generation
