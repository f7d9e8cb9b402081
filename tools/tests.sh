# Test runs of `run` and `.ci/run` (to be sourced): what fails beside others runs once more, alone.
#
# Two cores are shared by several test processes, each with a driver's threads and PyTorch's. A time limit or a
# deadline of a test that is right can break there. A failure that repeats alone is one; a test that passes alone is
# named by "FLAKY", so that it is seen and mended. Many failures at once are no accident, and are not run again.

# shellcheck shell=sh
FLAKY_LIMIT=20

# What failed in the last run of pytest with the cache in build/pytest-cache: a name in each line.
failed_tests() {
  sed -n 's/^  "\(.*\)": true,\{0,1\}$/\1/p' build/pytest-cache/v/cache/lastfailed 2>/dev/null
}

# Runs pytest on all processors. Usage: python_tests PYTHON [PYTEST ARGUMENT...]
python_tests() {
  interpreter=$1  # the functions of a shell share their variables with who sources them
  shift
  rm -rf build/pytest-cache
  set -- -o cache_dir=build/pytest-cache "$@"
  "$interpreter" -m pytest -n "$(nproc)" --dist worksteal "$@" && return 0
  status=$?
  first=$(failed_tests)
  count=$(printf '%s\n' "$first" | grep -c .)
  if [ $status != 1 ] || [ "$count" = 0 ] || [ "$count" -gt $FLAKY_LIMIT ]; then
    echo "FAILED pytest itself: status $status, $count tests failed"
    return $status
  fi
  echo "== $count failed beside others: once more, alone"
  "$interpreter" -m pytest -n 0 --last-failed "$@"
  status=$?
  again=$(failed_tests)
  printf '%s\n' "$first" | while read -r name; do
    printf '%s\n' "$again" | grep -qxF "$name" || echo "FLAKY $name"
  done
  return $status
}

# Runs ctest on all processors. Usage: cpp_tests_of FOLDER [CTEST ARGUMENT...]
cpp_tests_of() {
  folder=$1
  shift
  rm -f "$folder/Testing/Temporary/LastTestsFailed.log"
  ctest --test-dir "$folder" -j "$(nproc)" --output-on-failure "$@" && return 0
  status=$?
  first=$(cat "$folder/Testing/Temporary/LastTestsFailed.log" 2>/dev/null)
  count=$(printf '%s\n' "$first" | grep -c .)
  if [ "$count" = 0 ] || [ "$count" -gt $FLAKY_LIMIT ]; then
    echo "FAILED ctest itself: status $status, $count tests failed"
    return $status
  fi
  echo "== $count failed beside others: once more, alone"
  ctest --test-dir "$folder" --rerun-failed --output-on-failure || return $?
  printf '%s\n' "$first" | sed 's/^/FLAKY /'
}
