# Sourced by the scripts that run Python: `python` is the one that HETSGD_PYTHON names, else python3 of PATH. Where that one lacks
# modules that Debian's has, Debian's is taken, also by the program (HETSGD_PYTHON).
python=${HETSGD_PYTHON:-python3}
has_modules() { "$1" -c 'import jsonschema, matplotlib, numpy, pandas, scipy' 2>/dev/null; }
if [[ -z ${HETSGD_PYTHON:-} ]] && ! has_modules python3 && has_modules /usr/bin/python3; then
  python=/usr/bin/python3
  export HETSGD_PYTHON=$python
fi
