// How a test program tells Python of an error.
#pragma once

#include <cstdio>
#include <stdexcept>

// 0, or 1 with what an exception says in the message.
template <typename F> int guarded(F run, char* message, int size) {
    try {
        run();
        return 0;
    } catch (const std::exception& error) {
        std::snprintf(message, size, "%s", error.what());
        return 1;
    }
}
