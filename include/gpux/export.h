#pragma once

#if defined(_WIN32)
#if defined(GPUX_BUILDING)
#define GPUX_API __declspec(dllexport)
#else
#define GPUX_API __declspec(dllimport)
#endif
#else
#define GPUX_API __attribute__((visibility("default")))
#endif
