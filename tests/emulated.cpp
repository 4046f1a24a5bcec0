// Calls functions of a library for tests/emulated.py, a process of another processor: requests on stdin, answers
// on stdout. emulated.cpp LIBRARY
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

struct Request {
    char kind;  // 'a'llocate, 'w'rite, 'r'ead, 'f'ree, 'c'all
    char function[63];
    uint64_t numbers[8];  // what a function is called with; otherwise an address and a count of bytes
};

int main(int, char** arguments) {
    void* library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    for (Request request; std::fread(&request, sizeof request, 1, stdin) == 1; std::fflush(stdout)) {
        const uint64_t* n = request.numbers;
        auto* address = reinterpret_cast<void*>(n[0]);
        uint64_t answer = 0;
        if (request.kind == 'w' && std::fread(address, 1, n[1], stdin) != n[1]) return 1;
        if (request.kind == 'r') std::fwrite(address, 1, n[1], stdout);
        if (request.kind == 'f') std::free(address);
        if (request.kind == 'a') answer = reinterpret_cast<uint64_t>(std::malloc(n[1]));
        if (request.kind == 'c') {
            using Any = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
            const auto found = reinterpret_cast<Any>(dlsym(library, request.function));
            if (!found) return std::fprintf(stderr, "%s\n", dlerror()), 1;
            answer = found(n[0], n[1], n[2], n[3], n[4], n[5], n[6]);
        }
        if (request.kind == 'a' || request.kind == 'c') std::fwrite(&answer, sizeof answer, 1, stdout);
    }
}
