# Read by CMake right after `project(llama_cpp)` when packaging/bootstrap.py builds llama-cpp-python.
#
# The Python package loads libllama and libggml only, yet its CMakeLists forces llama.cpp's command
# line library (argument parser, templates, HTTP client) into the build, as a cache entry. A normal
# variable shadows a cache entry (policy CMP0126), and leaves 57 of 140 build steps out.
set(LLAMA_BUILD_COMMON OFF)
